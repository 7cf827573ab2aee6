"""The result of a SQL query as text, CSV or JSON, and the list of tables one can ask."""

import csv
import datetime as dt
import decimal
import json
import math
from collections.abc import Mapping, Sequence, Sized
from typing import IO

import pyarrow as pa
from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.table_catalogue import TABLES
from hvdprof.plain_text import shortened
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.whole_table import natural_width, print_blocks, print_whole

_MOST_ROWS = 1000
_UNBOUNDED = 1_000_000
_LONGEST_TEXTS = (_UNBOUNDED, 60, 40, 30, 20)
"""Characters of a name, tried one after the other until the table fits the terminal."""


def render_result(result: pa.Table, stream: IO[str], *, vertical: bool = False) -> None:
    """Write at most 1000 rows, with the number of the others.

    Args:
        result: The rows.
        stream: A terminal gets what it has room for: names shortened in the middle, and one line a
            column where even that is too wide. Numbers are never cut, and nothing elsewhere.
        vertical: One block a row, one line a column.
    """
    rows = [
        ["" if value is None else str(value) for value in row]
        for row in _rows(result.slice(0, _MOST_ROWS))
    ]
    console = report_console(stream)
    frames = (_frame(result.schema, rows, longest) for longest in _LONGEST_TEXTS)
    if not vertical and stream.isatty():
        fitting = (frame for frame in frames if natural_width(console, frame) <= console.width)
        frame = next(fitting, None)
    else:
        frame = None if vertical else next(frames)
    if frame is None:
        print_blocks(console, result.column_names, rows)
    else:
        # A number that is cut is a wrong number: others than terminals get the whole lines.
        print_whole(console, frame)
    left = result.num_rows - _MOST_ROWS
    if left > 0:
        console.print(f"... and {units.count(left)} rows more: write them with -o FILE")


def _frame(schema: pa.Schema, rows: Sequence[Sequence[str]], longest: int) -> Table:
    frame = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    lengths = []
    for field in schema:
        is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        justify = "right" if numeric or pa.types.is_decimal(field.type) else "left"
        lengths.append(longest if is_text else _UNBOUNDED)
        frame.add_column(
            Text(field.name),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=True,
            header_style="none",
        )
    for row in rows:
        texts = zip(row, lengths, strict=True)
        frame.add_row(*(Text(shortened(text, length)) for text, length in texts))
    return frame


def write_csv(result: pa.Table, stream: IO[str]) -> None:
    """Write a header and the rows as CSV; an empty field where a value is NULL."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(result.column_names)
    writer.writerows(_rows(result))


def write_json(result: pa.Table, stream: IO[str]) -> None:
    """Write a list of objects, one a row, as strict JSON."""
    rows = [dict(zip(result.column_names, row, strict=True)) for row in _rows(result)]
    json.dump(rows, stream, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    stream.write("\n")


def render_catalogue(tables: Mapping[str, Sized], stream: IO[str]) -> None:
    """Write every declared table that has rows with its columns, then the names of the others."""
    console = report_console(stream)
    for table in TABLES:
        if table.name not in tables:
            continue
        heading = Text(table.name, style="bold cyan")
        heading.append(f"  {units.count(len(tables[table.name]))} rows. ", style="not bold default")
        heading.append(table.doc, style="not bold default")
        console.print(heading)
        frame = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
        for column in table.columns:
            frame.add_row(Text(column.name), Text(column.unit or column.dtype), Text(column.doc))
        console.print(frame)
        console.print()
    empty = [table.name for table in TABLES if table.name not in tables]
    console.print(Text(f"Without rows here: {', '.join(empty)}.", style="dim"))


def _rows(result: pa.Table) -> list[list[object]]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in result.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.date | dt.time | dt.timedelta | bytes):
        return str(value)
    return value
