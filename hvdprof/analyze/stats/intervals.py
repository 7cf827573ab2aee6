"""Unions of intervals and their coverage, without a loop over intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
