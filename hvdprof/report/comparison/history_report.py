"""A series of runs in a terminal, as JSON and as CSV in the layout of Apache Otava.

Tested in ``tests/cli/test_history.py``.
"""

import csv
from collections.abc import Callable
from typing import IO

from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.cell_key import cell_label
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.results.comparison import History, size_text
from hvdprof.report.comparison.comparison_csv import metric_column, number_text
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import json_rows, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict
from hvdprof.report.terminal.whole_table import print_whole

HISTORY_SCHEMA_VERSION = 1


def render_history(found: History, stream: IO[str], *, width: int | None = None) -> None:
    """Write the verdict, a table for every cell, and what was left out."""
    console = report_console(stream, width)
    print_verdict(console, "", found.sentence, "")
    labels = [cell_label(row) for row in found.rows.to_dict("records")]
    for label in dict.fromkeys(labels):
        console.print(Text(f"\n{label}", style="bold cyan"))
        print_whole(console, _table(found, [other == label for other in labels]))
    for note in found.notes:
        print_hanging(console, "  ! ", note)


def render_history_json(found: History, stream: IO[str]) -> None:
    """Write one indented object and a newline: verdict, metric, rows of HISTORY, notes."""
    write_json(
        {
            "schema_version": HISTORY_SCHEMA_VERSION,
            "sentence": found.sentence,
            "metric": found.metric.name,
            "unit": found.metric.unit,
            "history": json_rows(found.rows),
            "notes": list(found.notes),
        },
        stream,
    )


def render_history_csv(found: History, stream: IO[str]) -> None:
    """Write ``time``, ``commit``, ``run`` and a column for each cell; a line for each run."""
    rows = [row | {"metric": found.metric.name} for row in found.rows.to_dict("records")]
    columns = list(dict.fromkeys(metric_column(row, found.metric.unit) for row in rows))
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        run = (str(row["time"]), str(row["commit"]), str(row["run"]))
        text = number_text(float(row["value"]))
        lines.setdefault(run, {})[metric_column(row, found.metric.unit)] = text
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["time", "commit", "run", *columns])
    for run in sorted(lines):
        writer.writerow([*run, *(lines[run].get(column, "") for column in columns)])


RENDERERS: dict[Format, Callable[[History, IO[str]], None]] = {
    Format.TERMINAL: render_history,
    Format.JSON: render_history_json,
    Format.CSV: render_history_csv,
}
"""What writes a series to a text stream."""


def _table(found: History, chosen: list[bool]) -> Table:
    frame = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    for name in ("time", "run", "commit"):
        frame.add_column(name, no_wrap=True, header_style="none")
    frame.add_column(f"{found.metric.title} (95 % CI)", justify="right", header_style="none")
    frame.add_column("change", justify="right", header_style="none")
    for row in found.rows[chosen].to_dict("records"):
        value = units.interval_of_unit(row["value"], row["low"], row["high"], found.metric.unit)
        frame.add_row(
            str(row["time"])[:16].replace("T", " "),
            str(row["run"]),
            str(row["commit"])[:9],
            value,
            Text(_change(found, row), style="bold red" if _is_worse(found, row) else "bold green"),
        )
    return frame


def _change(found: History, row: FrameRow) -> str:
    return size_text(float(row["change"]), found.metric) if row["is_change"] else ""


def _is_worse(found: History, row: FrameRow) -> bool:
    return bool(row["is_change"]) and found.metric.worse * float(row["change"]) > 0
