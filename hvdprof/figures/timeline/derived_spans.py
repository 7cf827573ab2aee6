"""Intervals that no row of EVENTS holds, and intervals that overlap, laid side by side."""

import heapq
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.model.arrays import Bools, Int32s, Int64s

OUTSIDE = "outside"
EVALUATION = "evaluation"
NAMES: dict[str, str] = {OUTSIDE: "outside all phases", EVALUATION: "evaluation"}
"""What these intervals are called, by category."""

SHORTEST_SHARE = 0.005
"""Shorter gaps between phases, in shares of the median step, are not drawn."""


@dataclass(frozen=True, slots=True)
class DerivedSpans:
    """Intervals: ``lane`` of the rank, its category, start and end in ns."""

    lane: Int32s
    category: tuple[str, ...]
    start_ns: Int64s
    end_ns: Int64s


def derived_spans(
    tables: tuple[pd.DataFrame, pd.DataFrame],
    ranks: Int64s,
    lane: Int64s,
    start: Int64s,
    end: Int64s,
) -> DerivedSpans:
    """Evaluations of a pass, and what its steps leave between their phases.

    Args:
        tables: STEPS and EVALUATIONS of the pass.
        ranks: Numbers of the ranks, ascending; their places are their lanes.
        lane: Lane of each phase of the ranks, their blocked time included.
        start: Start of each, ns.
        end: End of each, ns.
    """
    steps, lasting = (table[np.isin(table["rank"], ranks)] for table in tables)
    of_lasting = np.searchsorted(ranks, lasting["rank"])
    begun = lasting["start_ns"].to_numpy(np.int64)
    ended = begun + (lasting["dur_ns"] + lasting["rest_ns"]).to_numpy(np.int64)
    gap_lane, gap_start, gap_end = _gaps(
        (
            np.searchsorted(ranks, steps["rank"]),
            steps["start_ns"].to_numpy(np.int64),
            steps["dur_ns"].to_numpy(np.int64),
        ),
        np.concatenate([lane, of_lasting]),
        np.concatenate([start, begun]),
        np.concatenate([end, ended]),
    )
    first = np.concatenate([begun, gap_start])
    category = np.repeat([EVALUATION, OUTSIDE], [len(begun), len(gap_start)])
    # The axis begins with the first event: links and other passes count from there.
    shown = first >= start.min(initial=np.iinfo(np.int64).max)
    return DerivedSpans(
        np.concatenate([of_lasting, gap_lane])[shown].astype(np.int32),
        tuple(category[shown].tolist()),
        first[shown],
        np.concatenate([ended, gap_end])[shown],
    )


def _gaps(
    steps: tuple[Int64s, Int64s, Int64s], lane: Int64s, start: Int64s, end: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Lane, start and end of what lies in a step and in none of the intervals."""
    step_lane, step_start, step_length = steps
    if not len(step_start) or not len(start):
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    # One axis for all lanes: each begins where the one before it has ended.
    origin = min(int(step_start.min()), int(start.min()))
    width = max(int((step_start + step_length).max()), int(end.max())) - origin + 1
    covers = _Covered(start - origin + lane * width, end - origin + lane * width)
    first = step_start - origin + step_lane * width
    inside = _Covered(first, first + step_length)
    cuts = np.unique(np.concatenate([covers.start, covers.end, inside.start, inside.end]))
    left, length = cuts[:-1], np.diff(cuts)
    shortest = max(SHORTEST_SHARE * float(np.median(step_length)), 1.0)
    shown = inside.holds(left) & ~covers.holds(left) & (length >= shortest)
    left, length = left[shown], length[shown]
    begun = left % width + origin
    return left // width, begun, begun + length


class _Covered:
    """Intervals in order of their start, and whether a time lies in one."""

    def __init__(self, start: Int64s, end: Int64s) -> None:
        order = np.argsort(start, kind="stable")
        self.start, self.end = start[order], end[order]
        self._reach = np.maximum.accumulate(self.end)

    def holds(self, times: Int64s) -> Bools:
        latest = np.searchsorted(self.start, times, side="right") - 1
        inside: Bools = (latest >= 0) & (times < self._reach[latest.clip(min=0)])
        return inside


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
