"""Unions of intervals, as a whole or by key, and their coverage, without a loop over intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.model.arrays import Int64s


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
