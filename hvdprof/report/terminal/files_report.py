"""The analysis of standalone files, in a terminal and as one JSON object."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pandas as pd
from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.model.file_page import Gravity
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.notes import texts
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.plain_text import shortened
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.bandwidth_section import print_nccl_tests
from hvdprof.report.terminal.file_page import page_json, print_page
from hvdprof.report.terminal.findings_section import print_findings
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict
from hvdprof.report.terminal.whole_table import natural_width, number_frame, print_whole

FILES_SCHEMA_VERSION = 2

_FILE = "file"
_BETWEEN = 4
"""Characters between two columns."""

_LEAST_NAME = 20
_AS_ABOVE = "As above."


@dataclass(frozen=True, slots=True)
class ThroughputTable:
    """The throughputs of a series as texts, and what its efficiencies refer to."""

    series: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_files(found: FilesAnalysis, stream: IO[str], *, width: int | None = None) -> None:
    """Write what all files say together, their pages, tables made of them, findings and warnings.

    A hang or an error of one file comes before what all say together.

    Args:
        found: The finished analysis.
        stream: Where to write.
        width: Columns to write for; those of the terminal, or 80, where not given.
    """
    console = report_console(stream, width)
    is_grave = any(page.gravity <= Gravity.ERROR for page in found.files)
    if not is_grave:
        _print_joint(console, found)
    caveats = set[str]()
    for number, page in enumerate(found.files):
        if number or (found.verdicts and not is_grave):
            console.print()
        is_known = page.caveat in caveats
        print_page(console, replace(page, caveat=_AS_ABOVE) if is_known else page)
        caveats |= {page.caveat} - {""}
    if is_grave and found.verdicts:
        console.print()
        _print_joint(console, found)
    print_nccl_tests(
        console, found.run.table(NCCL_TEST_RUNS.name), found.run.table(NCCL_TESTS.name)
    )
    _print_scaling(console, found)
    print_findings(console, found.derived.get(FINDINGS.name, FINDINGS.empty()))
    if found.run.notes:
        console.print(Text("\nWarnings", style="bold yellow"))
    for note in found.run.notes:
        print_hanging(console, "  ! ", note.text)


def files_json(found: FilesAnalysis) -> JsonObject:
    """The analysis as plain dictionaries, lists, texts, numbers and ``None``.

    ``tables`` holds the derived tables, with the columns that docs/reference/tables.md lists.
    """
    return {
        "schema_version": FILES_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "files": [page_json(page) for page in found.files],
        "tables": {name: json_rows(frame) for name, frame in found.derived.items()},
        "row_counts": json_value(found.run.row_counts),
        "notes": json_value(texts(found.run.notes)),
    }


def render_files_json(found: FilesAnalysis, stream: IO[str]) -> None:
    """Write one indented JSON object and a newline."""
    write_json(files_json(found), stream)


def shape_throughputs(found: FilesAnalysis) -> list[ThroughputTable]:
    """The throughputs of standalone files, a table per series."""
    scaling = found.throughput_scaling
    several = len(scaling["file"].unique()) > 1
    tables = []
    for series, members in scaling.groupby("series", observed=True, sort=False):
        base = members["baseline_np"].iloc[0]
        has_intervals = bool(members["efficiency_low"].notna().any())
        repeated = "repeats apart" if members["np"].duplicated().any() else "no repeats"
        known = "95 % CI within each launch" if has_intervals else repeated
        against = "no baseline" if pd.isna(base) else f"against np={base}, {known}"
        stated = ["as stated"] * bool(members["stated_speedup"].notna().any())
        files = [_FILE] * several
        rows = [
            (
                units.count(row["np"]),
                units.rate_interval(*_with_ends(row, "samples_per_s")),
                units.rate_interval(*_with_ends(row, "speedup")),
                *(units.rate(row["stated_speedup"]) for _ in stated),
                units.percent_interval(*_with_ends(row, "efficiency")),
                *(Path(str(row["file"])).name for _ in files),
            )
            for row in members.to_dict("records")
        ]
        heads = ("np", "samples/s", "speed-up", *stated, "efficiency", *files)
        tables.append(ThroughputTable(str(series) or "throughput", against, heads, tuple(rows)))
    return tables


def _print_joint(console: Console, found: FilesAnalysis) -> None:
    """The verdicts on several files together; a caveat of several stands once."""
    caveats = set[str]()
    for verdict in found.verdicts:
        shown = "" if verdict.caveat in caveats else verdict.caveat
        print_verdict(console, "", verdict.sentence, shown)
        caveats.add(verdict.caveat)


def _print_scaling(console: Console, found: FilesAnalysis) -> None:
    for table in shape_throughputs(found):
        heading = Text("\n" + table.series, style="bold cyan")
        heading.append(f"  {table.caption}", style="not bold default")
        console.print(heading, soft_wrap=True)
        rows = table.rows
        if table.heads[-1] == _FILE:
            numbers = number_frame(table.heads[:-1], [row[:-1] for row in rows])
            left = console.width - natural_width(console, numbers) - _BETWEEN
            longest = max(left, _LEAST_NAME)
            rows = tuple((*row[:-1], shortened(row[-1], longest)) for row in rows)
        print_whole(console, number_frame(table.heads, rows))


def _with_ends(row: FrameRow, name: str) -> tuple[float, float, float]:
    return row[name], row[f"{name}_low"], row[f"{name}_high"]
