"""Streaming medians and unions: rows come piece by piece, in bounded memory."""

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class ValueCounts:
    """Counts of integer values; lengths in ns repeat, so there are few distinct ones."""

    def __init__(self) -> None:
        self._values: Int64s = np.empty(0, dtype=np.int64)
        self._counts: Int64s = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        """Number of values."""
        return int(self._counts.sum())

    def add(self, values: Int64s) -> None:
        """Add values."""
        new, numbers = np.unique(values, return_counts=True)
        both = np.concatenate([self._values, new])
        self._values, place = np.unique(both, return_inverse=True)
        weights = np.concatenate([self._counts, numbers])
        self._counts = np.zeros(len(self._values), dtype=np.int64)
        np.add.at(self._counts, place, weights)

    def quantile(self, share: float) -> float | None:
        """The quantile, with linear interpolation; ``None`` without values."""
        if not len(self._values):
            return None
        position = share * (len(self) - 1)
        below = int(position)
        last = np.cumsum(self._counts)
        low, high = (
            int(self._values[np.searchsorted(last, place, side="right")])
            for place in (below, min(below + 1, len(self) - 1))
        )
        return low + (high - low) * (position - below)


class Reach:
    """How far intervals reach that come in pieces, and what each adds to their union.

    No piece starts before the end of an earlier one. If one does, as after a clock that was set
    back, the part before the end of the earlier pieces is not counted again.
    """

    def __init__(self) -> None:
        self._end: int | None = None

    def added(self, starts: Int64s, ends: Int64s) -> Int64s:
        """The part of each interval that no earlier one covers; intervals in any order."""
        if not len(starts):
            return np.empty(0, dtype=np.int64)
        order = np.argsort(starts, kind="stable")
        reach = np.maximum.accumulate(ends[order])
        first = int(starts.min()) if self._end is None else self._end
        before = np.maximum(np.concatenate([[first], reach[:-1]]), first)
        new = np.empty(len(starts), dtype=np.int64)
        new[order] = np.maximum(ends[order] - np.maximum(starts[order], before), 0)
        self._end = max(first, int(reach[-1]))
        return new


class RunningUnion:
    """The union of intervals in pieces, as of ``Reach``."""

    def __init__(self) -> None:
        self.length = 0
        self._number = 0
        self._reach = Reach()

    def __len__(self) -> int:
        """Number of intervals."""
        return self._number

    def add(self, starts: Int64s, ends: Int64s) -> None:
        """Add the next piece: intervals in any order."""
        self._number += len(starts)
        self.length += int(self._reach.added(starts, ends).sum())
