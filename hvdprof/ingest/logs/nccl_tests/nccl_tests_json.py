"""The file that nccl-tests writes with ``-J FILE``: the same runs and rows as its printed table.

In place of its line, a row has its number.

Tested in ``tests/ingest/logs/test_nccl_tests_output.py``.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.nccl_tests.nccl_tests_output import NcclTests
from hvdprof.ingest.logs.nccl_tests.nccl_tests_rows import PartialRow, TestedRun, layout_of_names
from hvdprof.ingest.text.small_json import mapping_of, read_small
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.json_codec import parse_json
from hvdprof.rundir.regular_file import shown_name

_PLACES = ("out_of_place", "in_place")
_OPERATION = re.compile(r"(?:.*/)?([a-z]+(?:_[a-z]+)*)_perf$")
_NEXT_ROW = re.compile(rb'\},\s*\{"size":')


class NcclTestsJson(NcclTests):
    """One run of nccl-tests, from its JSON."""

    def take_run(self, document: Mapping[str, object]) -> None:
        """Read the document of a run.

        Raises:
            ValueError, TypeError, KeyError: It is of another form.
        """
        arguments, config = _items(document.get("args")), mapping_of(document["config"])
        operation = _OPERATION.match(str(arguments[0])) if arguments else None
        run = TestedRun(0, 1, operation[1] if operation else "", "")
        self._runs.append(run)
        devices = [mapping_of(device) for device in _items(config.get("devices"))]
        # Only the first GPU of each process is listed.
        of_process = whole(config.get("nthreads", 1)) * whole(config.get("ngpus", 1))
        run.highest_rank = len(devices) * of_process - 1
        run.hosts = {str(device["hostname"]) for device in devices}
        run.device = str(devices[0].get("device_info", "")) if devices else ""
        average = mapping_of(document.get("average_bus_bandwidth", {})).get("bandwidth")
        for number, row in enumerate(_items(document["results"]), start=1):
            self._take_result(run, number, mapping_of(row))
        run.average = float("nan" if average is None else str(average))
        run.failed = any(_items(document.get("errors")))

    def _take_result(self, run: TestedRun, number: int, row: Mapping[str, object]) -> None:
        measured = [mapping_of(row[place]) for place in _PLACES if row.get(place)]
        is_issue = any("cpu_time" in values for values in measured)
        time = "cputime" if is_issue else "time"
        layout = layout_of_names(f"type root {' '.join([time] * len(measured))} wrong", False)
        run.layout = layout
        texts: list[re.Match[str] | Mapping[str, str]] = [
            {
                "time": str(values["cpu_time" if is_issue else "time"]),
                "alg": str(values["alg_bw"]),
                "bus": str(values["bus_bw"]),
                "check": "N/A" if values.get("nwrong") is None else str(values["nwrong"]),
            }
            for values in measured
        ]
        keys = {"size": "size", "count": "count", "dtype": "type", "redop": "redop", "root": "root"}
        head = {name: str(row.get(key, "")).strip() for name, key in keys.items()}
        self._add(run, layout, PartialRow(number, head, texts))


def read_nccl_tests_json(path: Path, notes: list[Note]) -> list[tuple[str, pd.DataFrame]]:
    """NCCL_TEST_RUNS and NCCL_TESTS of a run; of a file that is cut, its whole rows.

    Args:
        path: The file.
        notes: Receives what was damaged or left out.

    Raises:
        UnreadableInputError: No row is whole, or it is of another form.
        OSError: It cannot be read.
    """
    reader = NcclTestsJson(shown_name(path))
    try:
        data = read_small(path)
        try:
            document = mapping_of(parse_json(data))
        except ValueError:
            ends = [found.start() for found in _NEXT_ROW.finditer(data)]
            document = mapping_of(parse_json(data[: max(ends) + 1] + b"]}"))
            notes.append(Note(NoteCode.DAMAGED, "the file has no end; its whole rows count"))
        reader.take_run(document)
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableInputError(
            f"{shown_name(path)} is a damaged file of nccl-tests (-J); it is not read.",
            hint="Run the program again, or give what it prints.",
        ) from error
    notes += reader.notes()
    return list(reader.tables().items())


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
