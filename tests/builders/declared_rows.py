"""Rows of any declared table: what a test does not state is empty, false, 0 or missing."""

from typing import Any

import pandas as pd

from hvdprof.model.schema import Table

_SINGLE = {("steps", "num_steps"): 1, ("job_steps", "num_steps"): 1}
"""A step stands for itself, unless a test states a window."""

_BLANK = {"category": "", "str": "", "bool": False, "boolean": False, "float64": float("nan")}


def declared_rows(table: Table, *rows: dict[str, Any]) -> pd.DataFrame:
    """A frame of a table with these rows."""
    blank = {
        column.name: _SINGLE.get((table.name, column.name), _BLANK.get(column.dtype, 0))
        for column in table.columns
    }
    return table.frame([blank | row for row in rows])
