"""Intervals that overlap, laid side by side."""

import heapq

import numpy as np

from hvdprof.model.arrays import Int64s


def lanes_without_overlap(starts_ns: Int64s, ends_ns: Int64s) -> Int64s:
    """The lane of each interval, from 0, such that no two of one lane overlap.

    Greedy by start, which needs no more lanes than intervals overlap at any one time. Starts must
    ascend.
    """
    lanes = np.zeros(len(starts_ns), dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for index, (start, end) in enumerate(zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        lanes[index] = lane
        heapq.heappush(busy, (end, lane))
    return lanes
