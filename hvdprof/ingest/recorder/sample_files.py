"""Files of samples of the machine to RANK_SAMPLES, HOST_SAMPLES and DEVICE_SAMPLES."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hvdprof import units
from hvdprof.ingest.recorder.clock_alignment import Alignment
from hvdprof.ingest.storage.blocks import Block, names
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.schema import Table
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, HOST_SAMPLES, RANK_SAMPLES
from hvdprof.rundir.json_codec import whole_lines
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.sample_format import DEVICE, HOST, MEASURES, RANK
from hvdprof.rundir.regular_file import open_regular

_TABLES = {RANK: RANK_SAMPLES, HOST: HOST_SAMPLES, DEVICE: DEVICE_SAMPLES}
_Row = tuple[str, int, int, str, int, float, float, float, float]


@dataclass(slots=True)
class RankSamples:
    """What a rank sampled, as rows of the tables without pass and rank, by scope."""

    rows: dict[str, list[_Row]] = field(default_factory=dict)
    num_damaged: int = 0

    def read(self, path: Path) -> None:
        """Add a file; damaged lines are counted.

        Raises:
            OSError: The file cannot be read at all.
        """
        with open_regular(path) as stream:
            for text in whole_lines(stream):
                if text is None or not self._take(text):
                    self.num_damaged += 1

    def blocks(self, pass_id: str, rank: int, alignment: Alignment) -> list[tuple[Table, Block]]:
        """What there is of each table."""
        found: list[tuple[Table, Block]] = []
        for scope, rows in self.rows.items():
            table = _TABLES[scope]
            own = dict(zip(DEVICE_SAMPLES.column_names[2:], zip(*rows, strict=True), strict=True))
            columns: dict[str, object] = {"pass_id": pass_id, "rank": rank}
            for column in table.columns[2:]:
                values = own[column.name]
                if column.dtype == "category":
                    columns[column.name] = names([str(value) for value in values])
                else:
                    numbers = np.asarray(values, dtype=column.dtype)
                    is_time = column.name == "start_ns"
                    columns[column.name] = alignment.aligned_ns(numbers) if is_time else numbers
            found.append((table, columns))
        return found

    def _take(self, text: bytes) -> bool:
        try:
            # Trusted to be as declared: what is not raises when it is read, and counts as damaged.
            line = from_bytes(text)
            if line["kind"] != "samples":
                return False
            start_ns = whole(line["start_ns"])
            head = str(line["device"]), start_ns, whole(line["end_ns"]) - start_ns
            rows = []
            for name, number, *summary in line["measures"]:
                mean, low, median, high = (float(value) for value in summary)
                if not all(map(math.isfinite, (mean, low, median, high))):
                    return False
                # A newer version may sample more.
                if name in MEASURES:
                    rows.append((*head, name, whole(number), mean, low, median, high))
            if line["scope"] not in _TABLES or not -1 << 63 <= start_ns < 1 << 63 or head[2] < 0:
                return False
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        if rows:
            self.rows.setdefault(line["scope"], []).extend(rows)
        return True


def samples_of_rank(
    path: Path, reading: Callable[[Path], AbstractContextManager[object]]
) -> tuple[RankSamples, list[Note]]:
    """What the file of a rank holds, and clauses on what could not be used of it.

    Args:
        path: The file; recordings of earlier versions have none.
        reading: A context around the reading of a file.
    """
    samples, notes = RankSamples(), []
    try:
        if path.exists():
            with reading(path):
                samples.read(path)
    except OSError as error:
        clause = f"its samples of the machine could not be read: {error.strerror or error}"
        notes.append(Note(NoteCode.UNREADABLE, clause))
    if samples.num_damaged:
        lines = units.counted(samples.num_damaged, "damaged line")
        text = f"{lines} of its samples of the machine skipped"
        notes.append(Note(NoteCode.DAMAGED, text, number=samples.num_damaged))
    return samples, notes
