"""One table of an analysis as people read it in a terminal, with units and intervals."""

from collections.abc import Sequence
from typing import IO, Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from hvdprof import units
from hvdprof.errors import UsageError
from hvdprof.model.run import RunAnalysis, declared_table
from hvdprof.model.schema import Column, Table
from hvdprof.report.hanging_text import print_hanging

MOST_ROWS = 60

_UNBOUNDED = 10_000
_LOW, _HIGH = "_low", "_high"
_UNIT_SUFFIXES = ("_gb_per_s", "_bytes", "_ns", "_ppm")


def print_sections(
    analysis: RunAnalysis, names: Sequence[str], stream: IO[str], *, width: int | None = None
) -> None:
    """Write the tables of those names one below the other.

    Columns with one value only stand above the table, ends of intervals stand behind their number,
    and a table that is wider than the terminal is written as one block a row.

    Args:
        analysis: The finished analysis.
        names: Names of tables of the analysis; ``sections_of`` lists them.
        stream: Where to write.
        width: Columns to write for; those of the terminal, or 80, where not given.

    Raises:
        UsageError: The analysis has no table of that name.
    """
    chosen = [section_table(analysis, name) for name in names]
    console = Console(file=stream, width=width, highlight=False, emoji=False)
    for number, (table, frame) in enumerate(chosen):
        if number:
            console.print()
        _print_section(console, table, frame)


def sections_of(analysis: RunAnalysis) -> list[str]:
    """The names of the tables that have rows, in the order of the docs."""
    return list(analysis.tables)


def section_table(analysis: RunAnalysis, name: str) -> tuple[Table, pd.DataFrame]:
    """A table of an analysis with its declaration.

    Raises:
        UsageError: The analysis has no table of that name with rows.
    """
    frame = analysis.tables.get(name)
    if frame is None:
        raise UsageError(
            f"This analysis has no section {name!r}.",
            hint=f"Sections with rows here: {', '.join(sections_of(analysis))}.",
        )
    return declared_table(name), frame


def _print_section(console: Console, table: Table, frame: pd.DataFrame) -> None:
    console.print(Text(table.name, style="bold cyan"))
    print_hanging(console, "  ", table.doc, style="dim")
    shown = frame.head(MOST_ROWS)
    columns = [one for one in table.columns if not _is_end_of_interval(one, table)]
    same = [one for one in columns if len(frame) > 1 and _is_constant(frame, one.name)]
    if same:
        told = ", ".join(f"{one.name} {_cell(one, table, shown.iloc[0])}" for one in same)
        print_hanging(console, "  ", told)
    varying = [one for one in columns if one not in same] or columns
    rows = [[_cell(one, table, row) for one in varying] for _, row in shown.iterrows()]
    grids = [
        _grid(varying, rows),
        _grid(varying, [[_broken(text) for text in row] for row in rows]),
    ]
    fitting = (grid for grid in grids if _natural_width(console, grid) <= console.width)
    grid = next(fitting, None)
    if grid is not None:
        console.print(grid)
    else:
        _print_blocks(console, varying, rows)
    if len(frame) > MOST_ROWS:
        left = units.count(len(frame) - MOST_ROWS)
        console.print(f'  ... and {left} rows more: hvdprof sql RUN "SELECT * FROM {table.name}"')


def _broken(text: str) -> str:
    """The interval of a number on a line of its own."""
    return text.replace(" (", "\n(", 1)


def _natural_width(console: Console, grid: Grid) -> int:
    unbounded = console.options.update(width=_UNBOUNDED, max_width=_UNBOUNDED)
    return console.measure(grid, options=unbounded).maximum


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    for column in columns:
        grid.add_column(
            Text(_heading(column)),
            justify="right" if _is_number(column) else "left",
            no_wrap=True,
            header_style="none",
        )
    for row in rows:
        grid.add_row(*(Text(text) for text in row))
    return grid


def _print_blocks(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> None:
    names = [_heading(column).replace("\n", " ") for column in columns]
    width = max(len(name) for name in names)
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, text in zip(names, row, strict=True):
            print_hanging(console, f"  {name.ljust(width)}  ", text)


def _heading(column: Column) -> str:
    name = column.name
    for suffix in _UNIT_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("_", "\n", 1).replace("_", " ")


def _cell(column: Column, table: Table, row: "pd.Series[Any]") -> str:
    value = row[column.name]
    if not _is_number(column):
        return "" if pd.isna(value) else str(value)
    ends = [_interval_end(column, table, end) for end in (_LOW, _HIGH)]
    if pd.isna(value) or None in ends:
        return _number(value, column.unit)
    low, high = (
        float("nan") if pd.isna(row[one.name]) else float(row[one.name]) for one in ends if one
    )
    return units.interval_of_unit(float(value), low, high, column.unit)


def _number(value: Any, unit: str) -> str:
    return units.MISSING if pd.isna(value) else units.of_unit(float(value), unit)


def _interval_end(column: Column, table: Table, end: str) -> Column | None:
    stem = next((s for s in _UNIT_SUFFIXES if column.name.endswith(s)), "")
    names = {column.name + end, column.name.removesuffix(stem) + end + stem}
    return next((one for one in table.columns if one.name in names), None)


def _is_end_of_interval(column: Column, table: Table) -> bool:
    ends = [
        _interval_end(one, table, end)
        for one in table.columns
        if one is not column
        for end in (_LOW, _HIGH)
    ]
    return column in [end for end in ends if end is not None]


def _is_constant(frame: pd.DataFrame, name: str) -> bool:
    return len(frame[name].drop_duplicates()) == 1


def _is_number(column: Column) -> bool:
    return column.dtype not in ("category", "str", "bool")
