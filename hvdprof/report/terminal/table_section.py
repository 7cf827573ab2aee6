"""One table of an analysis as people read it in a terminal, with units and intervals."""

from collections.abc import Sequence
from typing import IO

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from hvdprof import units
from hvdprof.errors import UsageError
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import Column, Table
from hvdprof.model.table_catalogue import TABLES, declared_table
from hvdprof.model.tables.log_tables import PRINTED_TIME
from hvdprof.report.terminal.section_text import (
    natural_width,
    print_blocks,
    print_hanging,
    report_console,
)

MOST_ROWS = 60


def print_sections(
    analysis: RunAnalysis, names: Sequence[str], stream: IO[str], *, width: int | None = None
) -> None:
    """Write the tables of those names one below the other.

    Columns without a value are named, those with one value only stand above the table, ends of
    intervals stand behind their number, and a table that is wider than the terminal is written as
    one block a row.

    Args:
        analysis: The finished analysis.
        names: Names of tables of the analysis; ``sections_of`` lists them.
        stream: Where to write.
        width: Columns to write for; those of the terminal, or 80, where not given.

    Raises:
        UsageError: The analysis has no table of that name.
    """
    chosen = [section_table(analysis, name) for name in names]
    console = report_console(stream, width)
    for number, (table, frame) in enumerate(chosen):
        if number:
            console.print()
        _print_section(console, table, frame)


def sections_of(analysis: RunAnalysis) -> list[str]:
    """The names of the tables that have rows, in the order of the docs."""
    names = {*analysis.ready_tables, *analysis.unread}
    return [table.name for table in TABLES if table.name in names]


def section_table(analysis: RunAnalysis, name: str) -> tuple[Table, pd.DataFrame]:
    """A table of an analysis with its declaration.

    Raises:
        UsageError: The analysis has no table of that name with rows.
    """
    frame = analysis.table(name) if name in sections_of(analysis) else None
    if frame is None or frame.empty:
        raise UsageError(
            f"This analysis has no section {name!r}.",
            hint=f"Sections with rows here: {', '.join(sections_of(analysis))}.",
        )
    return declared_table(name), frame


def _print_section(console: Console, table: Table, frame: pd.DataFrame) -> None:
    console.print(Text(table.name, style="bold cyan"))
    print_hanging(console, "  ", table.doc, style="dim")
    shown = frame.head(MOST_ROWS)
    ends = ends_of_intervals(table)
    columns = [column for column in table.columns if column.name not in ends]
    if empty := [column for column in columns if _is_empty(frame, column.name)]:
        names = ", ".join(heading(column) for column in empty)
        print_hanging(console, "  ", f"empty in all rows: {names}", style="dim")
        columns = [column for column in columns if column not in empty]
    texts = {column.name: column_texts(column, table, shown) for column in columns}
    same = [column for column in columns if len(frame) > 1 and _is_constant(frame, column.name)]
    if same:
        constants = ", ".join(f"{column.name} {texts[column.name][0]}" for column in same)
        print_hanging(console, "  ", constants)
    varying = [column for column in columns if column not in same] or columns
    rows = list(zip(*(texts[column.name] for column in varying), strict=True))
    # The interval of a number on a line of its own.
    grids = [
        _grid(varying, rows),
        _grid(varying, [[text.replace(" (", "\n(", 1) for text in row] for row in rows]),
    ]
    fitting = (grid for grid in grids if natural_width(console, grid) <= console.width)
    grid = next(fitting, None)
    if grid is not None:
        console.print(grid)
    else:
        print_blocks(console, [heading(column) for column in varying], rows)
    if len(frame) > MOST_ROWS:
        left = units.count(len(frame) - MOST_ROWS)
        console.print(f'  ... and {left} rows more: hvdprof sql RUN "SELECT * FROM {table.name}"')


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    for column in columns:
        grid.add_column(
            Text(heading(column).replace(" ", "\n", 1)),
            justify="right" if is_number(column) else "left",
            no_wrap=True,
            header_style="none",
        )
    for row in rows:
        grid.add_row(*(Text(text) for text in row))
    return grid


def _is_empty(frame: pd.DataFrame, name: str) -> bool:
    return bool((frame[name].isna() | (frame[name].astype("object") == "")).all())


def _is_constant(frame: pd.DataFrame, name: str) -> bool:
    return len(frame[name].drop_duplicates()) == 1


_LOW, _HIGH = "_low", "_high"
# How a column of that unit may end: its texts carry the unit, so a heading need not.
_UNIT_SUFFIXES = {
    "ns": ("_ns",),
    "bytes": ("_bytes",),
    "GB/s": ("_gb_per_s", "_gb_s"),
    "ns/MB": ("_ns_per_mb",),
    "MiB": ("_mb",),
    "s": ("_s",),
    "ppm": ("_ppm",),
}


def heading(column: Column) -> str:
    """The name of a column in words, without its unit, ``alpha_low_ns -> 'alpha low'``."""
    return column.name.removesuffix(_unit_suffix(column)).removeprefix("num_").replace("_", " ")


def is_number(column: Column) -> bool:
    """Whether a column holds numbers rather than names or flags."""
    return column.dtype.lower().startswith(("int", "uint", "float"))


def interval_ends(column: Column, table: Table) -> tuple[Column, Column] | None:
    """The columns that hold the lower and the upper end of a number's interval, if it has one."""
    suffix = _unit_suffix(column)
    found = []
    for end in (_LOW, _HIGH):
        names = {column.name + end, column.name.removesuffix(suffix) + end + suffix}
        found += [column for column in table.columns if column.name in names][:1]
    return (found[0], found[1]) if len(found) == 2 else None


def ends_of_intervals(table: Table) -> set[str]:
    """The names of all columns that are the end of another column's interval."""
    pairs = [interval_ends(column, table) for column in table.columns]
    return {end.name for pair in pairs if pair is not None for end in pair}


def column_texts(column: Column, table: Table, rows: pd.DataFrame) -> list[str]:
    """What to show of a column, a text a row: a number with its unit, then its interval."""
    if not is_number(column):
        return ["" if pd.isna(value) else str(value) for value in rows[column.name]]
    values = _floats(rows[column.name])
    ends = interval_ends(column, table)
    if column == PRINTED_TIME:
        return [units.moment(value) for value in values]
    if ends is None:
        return [units.of_unit(value, column.unit) for value in values]
    lows, highs = (_floats(rows[end.name]) for end in ends)
    return [
        units.interval_of_unit(value, low, high, column.unit)
        for value, low, high in zip(values, lows, highs, strict=True)
    ]


def _unit_suffix(column: Column) -> str:
    known = _UNIT_SUFFIXES.get(column.unit, ())
    return next((suffix for suffix in known if column.name.endswith(suffix)), "")


def _floats(values: pd.Series) -> list[float]:
    floats: list[float] = pd.to_numeric(values).astype("float64").tolist()
    return floats
