"""Unions of intervals, as a whole or by key, and streaming medians, in bounded memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.model.arrays import Int64s


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


@dataclass(frozen=True, slots=True)
class Union:
    """Disjoint intervals in ascending order; ``starts`` and ``ends`` in ns."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def length(self) -> int:
        """The sum of their lengths."""
        return int((self.ends - self.starts).sum())

    def covered(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Length of each interval from ``low`` to ``high`` that the union covers."""
        return self._up_to(high) - self._up_to(low)

    def _up_to(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        before = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
        place = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(place - 1, 0)
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        # Of the latest interval that has started, at most up to its end.
        within = np.clip(moments - self.starts[last], 0, self.ends[last] - self.starts[last])
        return np.asarray(np.where(place > 0, before[last] + within, 0), dtype=np.int64)


def union(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Union:
    """The union of intervals in any order; empty and overlapping ones are fine."""
    order = np.argsort(starts, kind="stable")
    begin, end = starts[order], ends[order]
    filled = end > begin
    begin, end = begin[filled], end[filled]
    if not len(begin):
        return Union(begin, end)
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], begin[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Union(begin[opens], reach[closes])


def merged_by_key(keys: Int64s, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Disjoint intervals of each key: keys, starts and ends, ascending by key and start.

    Args:
        keys: What an interval belongs to; intervals of different keys are never merged.
        starts: Starts in ns, in any order.
        ends: Ends in ns; intervals that are empty disappear.
    """
    order = np.lexsort((starts, keys))
    order = order[(ends > starts)[order]]
    key, start, end = keys[order], starts[order], ends[order]
    if not len(key):
        return key, start, end
    heads = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    lengths = np.maximum.reduceat(end, heads) - start[heads]
    # Every key gets a stretch of its own on one axis, so that one running maximum serves all.
    shift = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]) - start[heads]
    by_row = np.repeat(shift, np.diff(np.append(heads, len(key))))
    reach = np.maximum.accumulate(end + by_row)
    opens = np.concatenate([[True], start[1:] + by_row[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return key[opens], start[opens], reach[closes] - by_row[closes]
