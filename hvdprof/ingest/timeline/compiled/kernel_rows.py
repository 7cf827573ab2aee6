"""Columns of slices that compiled code fills, row by row, and hands over as they are."""

from typing import Any

import numpy as np

from hvdprof.ingest.timeline.compiled.kernel_pairs import (
    ARGS,
    BEGIN_ORDER,
    BELOW,
    DEPTH,
    END_ORDER,
    LENGTH,
    NAME,
    NUM_COLUMNS,
    PID,
    START,
)
from hvdprof.ingest.timeline.syntax.parsed_timeline import Slices

_DTYPES: dict[int, type[np.generic]] = {
    START: np.int64,
    LENGTH: np.int64,
    BEGIN_ORDER: np.int64,
    END_ORDER: np.int64,
    PID: np.int32,
    NAME: np.int32,
    ARGS: np.int32,
    BELOW: np.int32,
    DEPTH: np.uint8,
}
"""Widest first, so that each is aligned behind the one before."""


class RowColumns:
    """Room for slices.

    Attributes:
        room: Rows that there is room for.
        addresses: Where the columns stand, for compiled code; new after ``double``.
    """

    def __init__(self, room: int) -> None:
        self._columns = _columns(room)
        self._point(room)

    def double(self) -> None:
        """Make room for as many rows again."""
        more = _columns(2 * self.room)
        for old, new in zip(self._columns, more, strict=True):
            new[: self.room] = old
        self._columns = more
        self._point(2 * self.room)

    def slices(self, which: slice) -> Slices:
        """Some of the rows; a view."""
        columns = self._columns
        return Slices(
            pid=columns[PID][which],
            name=columns[NAME][which],
            start_us=columns[START][which],
            dur_us=columns[LENGTH][which],
            depth=columns[DEPTH][which],
            begin_order=columns[BEGIN_ORDER][which],
            end_order=columns[END_ORDER][which],
            args=columns[ARGS][which],
        )

    def drop_first(self, number: int, length: int) -> None:
        """Forget the first of so many rows; none that is left may stand above one of them."""
        for column in self._columns:
            column[: length - number] = column[number:length].copy()
        below = self._columns[BELOW][: length - number]
        np.maximum(below - number, -1, out=below)

    def _point(self, room: int) -> None:
        self.room = room
        self.addresses = np.array([column.ctypes.data for column in self._columns], np.int64)


def _columns(room: int) -> list[Any]:
    # One piece of memory is large enough for huge pages where nine are not.
    sizes = [room * np.dtype(dtype).itemsize for dtype in _DTYPES.values()]
    memory = np.empty(sum(sizes), np.uint8)
    ends = np.cumsum(sizes).tolist()
    columns: dict[int, Any] = {
        column: memory[end - size : end].view(dtype)
        for (column, dtype), size, end in zip(_DTYPES.items(), sizes, ends, strict=True)
    }
    return [columns[column] for column in range(NUM_COLUMNS)]


def doubled(column: Any) -> Any:
    """The rows of a column with as much room again behind them."""
    more = np.empty((2 * len(column), *column.shape[1:]), column.dtype)
    more[: len(column)] = column
    return more
