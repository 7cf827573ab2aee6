"""Intervals merged, and the parts of some that others do not cover."""

import numpy as np

from hvdprof.model.arrays import Int64s


def merged(starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Disjoint intervals in ascending order of intervals in any order; empty ones disappear."""
    order = np.argsort(starts, kind="stable")
    order = order[(ends > starts)[order]]
    begin, end = starts[order], ends[order]
    if not len(begin):
        return begin, end
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], begin[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return begin[opens], reach[closes]


def uncovered(intervals: tuple[Int64s, Int64s], by: tuple[Int64s, Int64s]) -> tuple[Int64s, Int64s]:
    """The parts of disjoint ascending intervals outside other disjoint ascending ones."""
    starts, ends = intervals
    low, high = by
    if not len(starts) or not len(low):
        return starts, ends
    # Every interval is cut at the borders of what covers it; each piece is inside or outside.
    edges = np.sort(np.concatenate([starts, ends, low, high]))
    begin, end = edges[:-1], edges[1:]
    wanted = _inside(begin, starts, ends) & ~_inside(begin, low, high)
    return merged(begin[wanted], end[wanted])


def covered_ns(starts: Int64s, ends: Int64s, by: tuple[Int64s, Int64s]) -> Int64s:
    """The length of each interval that disjoint ascending intervals cover."""
    low, high = by
    if not len(low):
        return np.zeros(len(starts), np.int64)
    before = np.concatenate([[0], np.cumsum(high - low)])

    def up_to(moments: Int64s) -> Int64s:
        place = np.searchsorted(low, moments, side="right")
        last = np.maximum(place - 1, 0)
        within = np.clip(moments - low[last], 0, high[last] - low[last])
        return np.asarray(np.where(place > 0, before[last] + within, 0), dtype=np.int64)

    return np.asarray(up_to(ends) - up_to(starts), dtype=np.int64)


def _inside(moments: Int64s, starts: Int64s, ends: Int64s) -> np.ndarray:
    place = np.searchsorted(starts, moments, side="right") - 1
    return (place >= 0) & (moments < ends[np.maximum(place, 0)])
