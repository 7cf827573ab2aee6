"""A declared table as people read it: headings in words, and numbers with unit and interval."""

import pandas as pd

from hvdprof import units
from hvdprof.model.schema import Column, Table

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
        found += [one for one in table.columns if one.name in names][:1]
    return (found[0], found[1]) if len(found) == 2 else None


def ends_of_intervals(table: Table) -> set[str]:
    """The names of all columns that are the end of another column's interval."""
    pairs = [interval_ends(column, table) for column in table.columns]
    return {end.name for pair in pairs if pair is not None for end in pair}


def column_texts(column: Column, table: Table, rows: pd.DataFrame) -> list[str]:
    """What to show of a column, a text a row: a number with its unit and, behind it, its interval.

    Args:
        column: One of the columns of the table.
        table: Its declaration.
        rows: Rows of the table.
    """
    if not is_number(column):
        return ["" if pd.isna(value) else str(value) for value in rows[column.name]]
    values = _floats(rows[column.name])
    ends = interval_ends(column, table)
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
