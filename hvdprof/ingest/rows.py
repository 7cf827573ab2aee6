"""Rows of a declared table, gathered column by column while a file is read."""

from typing import Any

import pandas as pd

from hvdprof.model.schema import Table

_NULLABLE = {"Int64": pd.Int64Dtype(), "Int32": pd.Int32Dtype(), "boolean": pd.BooleanDtype()}


class Rows:
    """Grows by one row at a time; equal texts of a category are held once.

    Args:
        table: The table to which the rows belong.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._codes: dict[str, dict[str, int]] = {
            column.name: {} for column in table.columns if column.dtype == "category"
        }
        self._columns: dict[str, list[Any]] = {name: [] for name in table.column_names}

    def __len__(self) -> int:
        return len(self._columns[self.table.columns[0].name])

    def add(self, **values: Any) -> None:
        """Add a row.

        Raises:
            KeyError: A column is not given.
            ValueError: A column is given that the table does not declare.
        """
        unknown = values.keys() - self._columns.keys()
        if unknown:
            raise ValueError(f"table {self.table.name} has no column {', '.join(sorted(unknown))}")
        row = {name: values[name] for name in self._columns}
        for name, column in self._columns.items():
            codes = self._codes.get(name)
            value = row[name]
            column.append(value if codes is None else codes.setdefault(value, len(codes)))

    def set_last(self, **values: Any) -> None:
        """Replace values of the row that was added last; not for categories."""
        for name, value in values.items():
            self._columns[name][-1] = value

    def frame(self) -> pd.DataFrame:
        """The rows as a frame of the declared dtypes."""
        # Through float64, where pandas puts missing numbers, times would lose their last digits.
        data: dict[str, Any] = {
            column.name: pd.Series(self._columns[column.name], dtype=_NULLABLE[column.dtype])
            if column.dtype in _NULLABLE
            else self._columns[column.name]
            for column in self.table.columns
        }
        for name, codes in self._codes.items():
            names = pd.Index(list(codes), dtype=str)
            data[name] = pd.Categorical.from_codes(self._columns[name], categories=names)
        return self.table.frame(pd.DataFrame(data, columns=self.table.column_names))
