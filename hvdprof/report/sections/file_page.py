"""Files on their pages: what they say, as sections and as JSON, and the tables of nccl-tests."""

import shlex
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.model.file_page import FilePage
from hvdprof.report.finding_texts import NOT_IN_FILE, file_texts
from hvdprof.report.json_values import JsonObject, json_value
from hvdprof.report.sections.section import Action, Head, Section

_FACT = (Head("", is_text=True), Head("", is_text=True))

_MOST_ROWS = 40
_MOST_RUNS = 3
_FEWEST_DIGITS = 0.1
_TITLE = "Bus bandwidth by message size"


def file_sections(page: FilePage) -> tuple[Section, ...]:
    """The verdict, the file that it is on, its facts and what it does not answer."""
    texts = file_texts(page)
    of_file = Section(
        texts.file,
        texts.about,
        heads=_FACT,
        rows=texts.facts,
        note=texts.note,
        verdict=texts.verdict,
        caveat=texts.caveat,
    )
    asked = tuple(Action("", question, command) for question, command in texts.unanswered)
    return (of_file, *([Section(NOT_IN_FILE, actions=asked)] if asked else []))


def page_json(page: FilePage) -> JsonObject:
    """The page as plain dictionaries, lists, texts, numbers and ``None``."""
    return {
        "file": page.file,
        "kind": page.kind,
        "size_bytes": page.size_bytes,
        "verdict": page.verdict or None,
        "caveat": page.caveat or None,
        "left_out": page.left_out or None,
        "facts": {fact.name: json_value(fact.value) for fact in page.facts},
        "unanswered": [
            {"question": open_.question, "command": open_.command} for open_ in page.unanswered
        ],
    }


def nccl_test_sections(runs: pd.DataFrame, rows: pd.DataFrame) -> tuple[Section, ...]:
    """The rows of each run, the smallest messages left out where a run has many.

    The row of the highest bandwidth is always there.

    Args:
        runs: Rows of NCCL_TEST_RUNS of all files.
        rows: Rows of NCCL_TESTS of all files.
    """
    measured = runs[(runs["num_sizes"] > 0).to_numpy()].to_dict("records")
    tables = []
    for number, run in enumerate(measured[:_MOST_RUNS], start=1):
        own = rows[((rows["file"] == run["file"]) & (rows["run"] == run["run"])).to_numpy()]
        shaped = _shape_run(_title(run) if len(measured) > 1 else _TITLE, own)
        if number == _MOST_RUNS < len(measured):
            more = units.counted(len(measured) - _MOST_RUNS, "further run")
            hint = _hint(more, str(measured[_MOST_RUNS]["file"]))
            shaped = replace(shaped, sentences=(*shaped.sentences, hint))
        tables.append(shaped)
    return tuple(tables)


def _title(run: dict[Hashable, object]) -> str:
    operation = f"  {run['operation']}" if run["operation"] else ""
    return f"{run['file']}:{run['line']}{operation}"


def _shape_run(title: str, rows: pd.DataFrame) -> Section:
    # Bus bandwidths; where two printed decimals say little, by size, time and the best row.
    printed = rows["busbw_gb_s"].to_numpy(dtype=np.float64)
    of_size = (rows["size_bytes"] / rows["time_ns"].clip(lower=1)).to_numpy(dtype=np.float64)
    factor = printed.max() / max(of_size[printed.argmax()], 1e-12)
    rows = rows.assign(known_gb_s=np.where(printed >= _FEWEST_DIGITS, printed, factor * of_size))
    kinds = [column for column in ("dtype", "redop", "root") if len(rows[column].unique()) > 1]
    lines = rows.groupby("line", sort=True)
    shown = _shown_lines(rows)
    hidden = lines.ngroups - len(shown)
    names = ("size", *kinds, "out of place", "bus bandwidth", "in place", "bus bandwidth")
    smaller = f"{units.counted(hidden, 'row')} of small messages"
    return Section(
        title,
        heads=tuple(map(Head, names)),
        rows=tuple(tuple(_cells(members, kinds)) for line, members in lines if line in shown),
        sentences=(_hint(smaller, str(rows.iloc[0]["file"])),) if hidden else (),
    )


def _hint(what: str, file: str) -> str:
    return f'{what} not shown: `hvdprof sql {shlex.quote(file)} "SELECT * FROM nccl_tests"`'


def _shown_lines(rows: pd.DataFrame) -> set[int]:
    """The rows of the largest messages, and that of the highest bandwidth."""
    # The smallest messages say the least about bandwidth.
    first = rows.drop_duplicates("line").sort_values("size_bytes", kind="stable")
    best = int(rows.iloc[int(rows["busbw_gb_s"].to_numpy().argmax())]["line"])
    return {best, *(int(line) for line in first["line"].iloc[-_MOST_ROWS:])}


def _cells(rows: pd.DataFrame, kinds: Sequence[str]) -> list[str]:
    first = rows.iloc[0]
    cells = [units.byte_size(first["size_bytes"]), *(str(first[column]) for column in kinds)]
    for in_place in (False, True):
        cells += _measured(rows[(rows["in_place"].fillna(False) == in_place).to_numpy()])
    return cells


def _measured(rows: pd.DataFrame) -> list[str]:
    if rows.empty:
        return [units.MISSING, units.MISSING]
    row = rows.iloc[-1]
    bandwidth = units.of_unit(row["known_gb_s"], "GB/s") if row["known_gb_s"] else "below 0.01 GB/s"
    return [units.milliseconds(float(row["time_ns"])), bandwidth]
