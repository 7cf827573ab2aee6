"""What every reader of a job's output has in common: it keeps rows of declared tables.

Tested by the readers' own tests in ``tests/ingest/logs``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from hvdprof.ingest.storage.row_buffer import MISSING, Packed, Rows
from hvdprof.ingest.text.line_filter import EVERY_LINE
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.arrays import Int64s
from hvdprof.model.notes import Note
from hvdprof.model.schema import Table

_MISSING: Mapping[str, object] = {
    "category": "",
    "str": "",
    "float64": float("nan"),
    "bool": False,
    **dict.fromkeys(("Int64", "Int32", "boolean")),
}
"""The value of a column that a line does not state, by dtype; other columns must be given."""


_LIMITS = {"int64": 2**62, "Int64": 2**62, "float64": 2**62, "int32": 2**31, "Int32": 2**31}


class PartReader(ABC):
    """Takes every line of a file, in order, and keeps what it understands.

    A subclass names its ``TABLES``, and as ``KIND`` what a file with rows of the first table is.

    Args:
        file: Name of the file, for the rows.

    Attributes:
        num_absurd: Rows that were left out, because a number in them is beyond 64 bits.
        np: The number of ranks that the user states, for files that state none.
    """

    TABLES: ClassVar[tuple[Table, ...]]
    KIND: ClassVar[str]

    def __init__(self, file: str) -> None:
        self.num_absurd = 0
        self.np: int | None = None
        self._file = file
        self._rows = {table.name: Rows(table) for table in self.TABLES}
        self._missing = {
            table.name: {
                column.name: _MISSING[column.dtype]
                for column in table.columns
                if column.dtype in _MISSING
            }
            for table in self.TABLES
        }
        self._limits = {
            table.name: {
                column.name: _LIMITS[column.dtype]
                for column in table.columns
                if column.dtype in _LIMITS
            }
            for table in self.TABLES
        }

    @property
    def wanted(self) -> str:
        """A pattern that finds all lines to be taken next, as ``line_filter`` describes it.

        A reader without one gets every line, and makes reading slow.
        """
        return EVERY_LINE

    def state_np(self, np: int | None) -> None:
        """Let this be the number of ranks where the file states none; None says nothing."""
        self.np = np

    @abstractmethod
    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""

    def end_within(self, number: int) -> None:  # noqa: B027
        """The file ends within this line, which was taken as the last."""

    def finish(self) -> None:  # noqa: B027
        """No line may follow: keep what waits for more. ``tables`` and ``kinds`` begin with it."""

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables that have rows, by name."""
        self.finish()
        # A frame without rows costs a millisecond, and most files hold nothing for most readers.
        return {name: rows.frame() for name, rows in self._rows.items() if len(rows)}

    def kinds(self) -> list[str]:
        """What the file is for this reader; empty where it found nothing."""
        self.finish()
        return [self.KIND] if len(self.rows) else []

    def notes(self) -> list[Note]:
        """Clauses that say what was damaged or left out."""
        return []

    @property
    def rows(self) -> Rows:
        """The rows of the first table so far."""
        return self._rows[self.TABLES[0].name]

    def add(self, line: int, **values: object) -> None:
        """Add a row of the first table; columns that are not given count as missing."""
        self.add_to(self.TABLES[0], line, **values)

    def row(self, **values: object) -> tuple[object, ...]:
        """A row of the first table, for ``Rows.extend``; what is not given is missing, or None."""
        known = {**self._missing[self.TABLES[0].name], "file": self._file, **values}
        return tuple(known.get(name) for name in self.TABLES[0].column_names)

    def add_many(
        self, rows: Sequence[tuple[object, ...]], which: Int64s, numbers: Mapping[str, Packed]
    ) -> None:
        """Add rows of the first table as ``Rows.extend``, but for absurd ones as ``add_to``."""
        is_fit = np.ones(len(which), dtype=np.bool_)
        for name, values in numbers.items():
            size, limit = np.abs(values), self._limits[self.TABLES[0].name][name]
            is_fit &= (size == 0) | (values == MISSING) | ~((size >= limit) | (size < 1 / limit))
        self.num_absurd += int((~is_fit).sum())
        if is_fit.any():
            fit = {name: values[is_fit] for name, values in numbers.items()}
            self.rows.extend(rows, which[is_fit], fit)

    def add_to(self, table: Table, line: int, **values: object) -> None:
        """Add a row of a table, found at a line; columns that are not given count as missing.

        A row with a number that fits no column is left out, and counted.
        """
        row: dict[str, Any] = {"line": line, **values}
        limits = self._limits[table.name]
        for name, value in row.items():
            limit = limits.get(name)
            # The smallest, too: ratios of damaged numbers would be beyond floats.
            if limit and value and (abs(value) >= limit or abs(value) < 1 / limit):
                self.num_absurd += 1
                return
        self._rows[table.name].add(**{**self._missing[table.name], "file": self._file, **row})
