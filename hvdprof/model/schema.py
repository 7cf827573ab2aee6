"""How a table is declared: columns with dtype, unit and a sentence; frames checked against it.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``dtype`` is a pandas dtype name, ``unit`` is empty for names and flags."""

    name: str
    dtype: str
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table; one row is what ``doc`` says."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> list[str]:
        """The names of the columns in their order."""
        return [column.name for column in self.columns]

    def frame(
        self, data: Mapping[str, Any] | Sequence[Mapping[str, Any]] | pd.DataFrame
    ) -> pd.DataFrame:
        """Data as a frame of exactly the declared columns, order and dtypes.

        Args:
            data: Columns by name, a list of rows, or a frame. A declared column that is missing
                is an error, a column that is not declared too.

        Raises:
            ValueError: The columns are not the declared ones, or a value does not fit its dtype.
        """
        raw = pd.DataFrame(data, columns=None if len(data) else self.column_names)
        unknown = sorted(set(raw.columns) - set(self.column_names))
        missing = [name for name in self.column_names if name not in raw.columns]
        if unknown or missing:
            raise ValueError(f"table {self.name}: missing columns {missing}, unknown {unknown}")
        rows = raw[self.column_names].reset_index(drop=True)
        # Analyses make thousands of small frames: converting what is right already costs the most.
        changed = {
            column.name: column.dtype
            for dtype, column in zip(rows.dtypes, self.columns, strict=True)
            if dtype != column.dtype
        }
        return rows.astype(changed) if changed else rows

    def empty(self) -> pd.DataFrame:
        """The table without rows."""
        return _without_rows(self).copy()


@cache
def _without_rows(table: Table) -> pd.DataFrame:
    return table.frame({name: [] for name in table.column_names})
