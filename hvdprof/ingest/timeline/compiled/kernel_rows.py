"""Columns of slices that compiled code fills, row by row, and returns as they are."""

from typing import Any

import numpy as np

from hvdprof.ingest.timeline.syntax.parsed_timeline import Slices

_DTYPES: dict[str, type[np.generic]] = {
    "start_us": np.int64,
    "dur_us": np.int64,
    "begin_order": np.int64,
    "end_order": np.int64,
    "pid": np.int32,
    "name": np.int32,
    "args": np.int32,
    "below": np.int32,
    "depth": np.uint8,
}
"""Widest first, so that each is aligned behind the one before; ``below`` is the row below on the
stack."""

_ORDER = ("pid", "name", "start_us", "dur_us", "depth", "begin_order", "end_order", "args", "below")


class RowColumns:
    """Room for slices.

    Attributes:
        columns: The columns as ``kernel_pairs.pair`` takes them; new after ``double``.
    """

    def __init__(self, room: int) -> None:
        self.columns = _columns(room)

    @property
    def room(self) -> int:
        """Rows that there is room for."""
        return len(self.columns[0])

    def double(self) -> None:
        """Make room for as many rows again."""
        more = _columns(2 * self.room)
        for old, new in zip(self.columns, more, strict=True):
            new[: self.room] = old
        self.columns = more

    def slices(self, which: slice) -> Slices:
        """Some of the rows; a view."""
        named = {name: column[which] for name, column in zip(_ORDER, self.columns, strict=True)}
        del named["below"]
        return Slices(**named)

    def drop_first(self, number: int, length: int) -> None:
        """Forget the first of so many rows; none that is left may stand above one of them."""
        for column in self.columns:
            column[: length - number] = column[number:length].copy()
        below = self.columns[_ORDER.index("below")][: length - number]
        np.maximum(below - number, -1, out=below)


def _columns(room: int) -> tuple[Any, ...]:
    # One piece of memory is large enough for huge pages where nine are not.
    sizes = [room * np.dtype(dtype).itemsize for dtype in _DTYPES.values()]
    memory = np.empty(sum(sizes), np.uint8)
    ends = np.cumsum(sizes).tolist()
    columns: dict[str, Any] = {
        column: memory[end - size : end].view(dtype)
        for (column, dtype), size, end in zip(_DTYPES.items(), sizes, ends, strict=True)
    }
    return tuple(columns[name] for name in _ORDER)


def doubled(column: Any) -> Any:
    """The rows of a column with as much room again behind them."""
    more = np.empty((2 * len(column), *column.shape[1:]), column.dtype)
    more[: len(column)] = column
    return more
