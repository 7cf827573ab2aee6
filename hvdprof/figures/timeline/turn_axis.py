"""The time axis: its texts, and the turns of hvdprof in a small, fixed width.

Launches that are resident together take turns: between two of its own, a launch is stopped for
seconds, which would leave its steps a few pixels. Times are ns since the start of the pass; a place
on the axis is such a time less what the turns before it were shortened by.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.rank_times import StepTimes
from hvdprof.figures.timeline.viewport import Ints, Spans
from hvdprof.model.arrays import Bools, Float64s

_SETTLING_STEPS = 1
"""A turn begins with so many steps that no result uses."""
# As wide as two steps, and still to be seen where steps are many; all turns are at most a quarter.
_WIDTH_STEPS, _LEAST_SHARE, _MOST_SHARE = 2, 0.01, 0.25

_IN_SECONDS_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class TurnAxis:
    """Times to places and back: a line of slope 1 but for the turns.

    ``time_ns`` and ``place_ns`` are its corners, begin and end of each turn between 0 and the end
    of the pass; without turns, places are times. ``length_ns`` is the last place.
    """

    time_ns: Ints
    place_ns: Ints

    @property
    def length_ns(self) -> int:
        """The length of the axis."""
        return int(self.place_ns[-1])

    @property
    def turns(self) -> list[list[int]]:
        """Begin and end of each turn, and its width on the axis."""
        widths = np.diff(self.place_ns)[1::2]
        ends = self.time_ns[1:-1:2], self.time_ns[2:-1:2]
        return [[int(one) for one in turn] for turn in zip(*ends, widths, strict=True)]

    def places(self, times_ns: Ints | Sequence[int]) -> Float64s:
        """The place of each time."""
        return _along(times_ns, self.time_ns, self.place_ns)

    def times(self, places: Float64s | Sequence[float]) -> Ints:
        """The time of each place, the nearest whole ns."""
        found: Ints = np.rint(_along(places, self.place_ns, self.time_ns)).astype(np.int64)
        return found

    def window(self, first_ns: int, last_ns: int) -> tuple[int, int]:
        """The places of two times, whole ns."""
        low, high = np.rint(self.places([first_ns, last_ns])).astype(np.int64).tolist()
        return low, high

    def around(self, first_ns: int, last_ns: int, share: float) -> tuple[int, int]:
        """The times that lie beside two times by a share of their distance on the axis."""
        low, high = self.window(first_ns, last_ns)
        beside = share * (high - low)
        first, last = self.times([low - beside, high + beside]).tolist()
        return first, last

    def edges(self, first_ns: int, last_ns: int, most: int) -> Ints:
        """Times that cut a window into at most so many parts of equal width on the axis."""
        if not self.turn_ns(first_ns, last_ns):
            number = int(min(most, max(last_ns - first_ns, 1)))
            return first_ns + np.arange(number + 1, dtype=np.int64) * (last_ns - first_ns) // number
        low, high = self.places([first_ns, last_ns])
        # Parts of 2 ns and more: rounded edges differ.
        number = int(min(most, max((high - low) // 2, 1)))
        edges = self.times(np.linspace(low, high, number + 1))
        edges[0], edges[-1] = first_ns, last_ns
        return edges

    def turn_ns(self, first_ns: int, last_ns: int) -> int:
        """How much of the time between two times is turns of hvdprof."""
        inside = np.clip(self.time_ns[1:-1], first_ns, last_ns)
        return int((inside[1::2] - inside[::2]).sum())

    def job_parts(self, first_ns: int, last_ns: int) -> tuple[Ints, Float64s]:
        """Edges that cut a window at its turns, and the share of each part in the job's own time.

        The share of a turn is 0; in a window of nothing else it is 1.
        """
        corners = self.time_ns[(self.time_ns > first_ns) & (self.time_ns < last_ns)]
        edges = np.concatenate([[first_ns], corners, [last_ns]]).astype(np.int64)
        own, is_turn = np.diff(edges), self.in_turn(edges[:-1])
        own[is_turn & ~is_turn.all()] = 0
        return edges, own / own.sum()

    def in_turn(self, times_ns: Ints) -> Bools:
        """Whether each time lies in a turn."""
        found: Bools = np.searchsorted(self.time_ns, times_ns, side="right") % 2 == 0
        return found

    def text(self, first_ns: int, last_ns: int, what: str = "") -> str:
        """The length between two times, what it is, and how much of it is turns of hvdprof."""
        turns = self.turn_ns(first_ns, last_ns)
        of_turns = f", {length_text(turns)} of it hvdprof's turns" if turns else ""
        return f"{length_text(last_ns - first_ns)}{what}{of_turns}"


def turn_axis(turns: pd.DataFrame, steps: StepTimes, spans: Spans, origin_ns: int) -> TurnAxis:
    """The axis of a pass.

    Args:
        turns: TURNS of the pass.
        steps: Its steps.
        spans: Its events; a turn is where none begins or ends.
        origin_ns: Its start on the clock of the tables.
    """
    found = np.array(_gaps(turns, steps, spans), np.int64).reshape(-1, 2)
    gaps = np.unique(found, axis=0) - origin_ns
    length = max(spans.last_ns - origin_ns, 1_000)
    lengths = gaps[:, 1] - gaps[:, 0]
    own = length - int(lengths.sum())
    usual = _WIDTH_STEPS * float(np.median(steps.length_ns)) if len(gaps) else 0.0
    width = min(max(usual, _LEAST_SHARE * own), _MOST_SHARE * own / max(len(gaps), 1))
    width = max(int(width), 1)
    gaps = gaps[lengths > width]
    times = np.concatenate([[0], gaps.ravel(), [length]]).astype(np.int64)
    parts = np.diff(times)
    parts[1::2] = width
    return TurnAxis(times, np.concatenate([[0], np.cumsum(parts)]).astype(np.int64))


def _along(asked: Ints | Float64s | Sequence[float], start: Ints, end: Ints) -> Float64s:
    """What belongs to each value between two lists of corners; beyond them, the slope is 1."""
    values = np.asarray(asked, np.float64)
    inside = values.clip(start[0], start[-1])
    found: Float64s = np.interp(inside, start, end) + (values - inside)
    return found


def _gaps(turns: pd.DataFrame, steps: StepTimes, spans: Spans) -> list[tuple[int, int]]:
    """Begin and end of what lies between the steps of two turns, on the clock of the tables."""
    names = np.array(steps.segments, dtype=object)[steps.segment]
    found = []
    for row in turns.to_dict("records"):
        own = np.flatnonzero(names == row["segment"])
        at = int(np.searchsorted(steps.number[own], row["first_step"])) - _SETTLING_STEPS
        if not 0 < at < len(own):
            continue
        start, stop = int(steps.end_ns[own[at - 1]]), int(steps.start_ns[own[at]])
        if stop > start:
            found.append(_empty_part(spans, start, stop))
    return found


def _empty_part(spans: Spans, start: int, stop: int) -> tuple[int, int]:
    """The longest part of a gap in which no event is, such as an evaluation before the turn."""
    inside = spans.within(start, stop, np.arange(spans.num_lanes))
    # What lasts through all of it, such as a negotiation without an end, is no work in it.
    partly = (inside.start_ns > start) | (inside.end_ns < stop)
    begun, ended = inside.start_ns[partly].clip(start), inside.end_ns[partly].clip(max=stop)
    order = np.argsort(begun)
    free = np.maximum.accumulate(np.concatenate([[start], ended[order]]))
    until = np.concatenate([begun[order], [stop]])
    longest = int((until - free).argmax())
    return int(free[longest]), int(until[longest])


def length_text(length_ns: float) -> str:
    """A length in the unit that fits, ``'26.7 µs'``, ``'36.9 ms'``, ``'12.3 s'``."""
    if abs(length_ns) < _IN_SECONDS_NS:
        return units.milliseconds(length_ns)
    return f"{length_ns / 1e9:,.1f} s"


def place_text(time_ns: int) -> str:
    """A time since the start of the pass to the microsecond, ``'36.912 ms'``, ``'12.345678 s'``."""
    if abs(time_ns) < _IN_SECONDS_NS:
        return f"{time_ns / 1e6:,.3f} ms"
    return f"{time_ns / 1e9:,.6f} s"
