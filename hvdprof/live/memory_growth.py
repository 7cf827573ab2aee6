"""Memory of a rank that grows while the job runs: when that is sure and matters, and when it ends.

The growth of each block, as a share of the largest change of a block in the last minutes, is held
against ``LEVEL`` by the sequential test of stragglers (``live.e_detector``): noise, and what is
freed again, goes down as often as up. What the test has found is reported where the rule of
``analyze`` holds for it, too: the interval of its growth lies above zero, its last part still
grows, it is large, and beyond what the rank had before. A cache that fills looks the same for a
while: so it must have lasted, or memory must become short.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hvdprof import units
from hvdprof.live.e_detector import HISTORY, EDetector
from hvdprof.live.explanation import Sampled
from hvdprof.rundir.recording.sample_format import (
    GROWTH_PARTS,
    LEAST_GROWTH_BYTES,
    LEAST_GROWTH_SHARE,
    RSS,
    TORCH_ALLOCATED,
)

GROWING = (RSS, TORCH_ALLOCATED)
BLOCKS_S = (5.0, 80.0)
"""Lengths of blocks; what grows slowly does so in leaps of the allocator."""

LEVEL, RUN_LENGTH = 0.25, 72_000
"""Share of the largest change that is no growth; blocks in 100 hours, between false alarms."""

LEAST_PER_HOUR = 0.02
"""Of the memory; what grows by less fills no host in days."""

STILL_GROWING = 0.8
"""Of the mean growth: where the last is less, a cache fills; no less than ``analyze`` asks for."""

T_OF_PARTS = 2.776
"""Student's t for the growths between six parts, 95 %."""

LASTING_S, SOON, LARGE = 3600.0, 0.1, 0.5
"""A growth is reported after as long; sooner where it took that share of the host's memory that is
available, or of the rank's own where that is not known."""

_SCALE_BLOCKS, _LEAST_BLOCKS, _MOST_POINTS = 60, 6, 600
_Point = tuple[float, float]
"""Middle of a block, seconds, and mean of its memory, bytes."""


@dataclass(frozen=True, slots=True)
class Growing:
    """Memory that grows: since when, from and to how many bytes, bytes per second."""

    rank: int
    measure: str
    since_s: float
    until_s: float
    low: float
    high: float
    per_s: float

    def text(self, host: str, step_s: float, left_s: float) -> str:
        """How it grows, and until when there is room.

        Args:
            host: Of the rank.
            step_s: Length of a step.
            left_s: Until the host has no memory available at this rate; NaN where not known.
        """
        low, high = units.byte_size(self.low), units.byte_size(self.high)
        text = (
            f"{self._what()} grows by {units.byte_size(self.per_s * step_s)} per step, from {low} "
            f"to {high} in {units.duration(self.until_s - self.since_s)}."
        )
        if math.isnan(left_s):
            return text
        digit_s = next(unit_s for unit_s in (3600, 60, 1) if left_s > 2 * unit_s or unit_s == 1)
        return (
            f"{text} At this rate {host or 'its host'} has no memory available in about "
            f"{units.duration(left_s - left_s % digit_s)}; the limit of a container may come "
            "sooner."
        )

    def text_over(self, at_s: float) -> str:
        """That it no longer grows."""
        return f"{self._what()} no longer grows, after {units.duration(at_s - self.since_s)}."

    def _what(self) -> str:
        what = "memory (rss)" if self.measure == RSS else "GPU memory (torch allocated)"
        return f"The {what} of rank {self.rank}"


@dataclass(slots=True)
class _Series:
    """The blocks of one measure of a rank; ``high`` is the most before those that are kept."""

    length_s: float
    high: float = 0.0
    blocks: deque[_Point] = field(default_factory=lambda: deque(maxlen=HISTORY))
    points: list[_Point] = field(default_factory=list)
    """Since the growth began; none while there is none."""
    before: float = 0.0
    """The most before it began."""
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_SCALE_BLOCKS))
    _open: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, one: Sampled, mean: float) -> float | None:
        """The growth of a block that is complete now, as a share; None before."""
        length_s = one.end_s - one.begin_s
        for place, value in enumerate((1.0, mean, (one.begin_s + one.end_s) / 2)):
            self._open[place] += length_s * value
        if self._open[0] < self.length_s:
            return None
        weight, level, at_s = self._open
        self._open = [0.0, 0.0, 0.0]
        last = self.blocks[-1] if self.blocks else None
        if len(self.blocks) == HISTORY:
            self.high = max(self.high, self.blocks[0][1])
        self.blocks.append((at_s / weight, level / weight))
        if self.points:
            self.points.append(self.blocks[-1])
            if len(self.points) > _MOST_POINTS:
                self.points = self.points[::2]
        if last is None or self.blocks[-1][0] <= last[0]:
            return None
        rate = (self.blocks[-1][1] - last[1]) / (self.blocks[-1][0] - last[0])
        least = LEAST_PER_HOUR / 3600 * self.blocks[-1][1] / LEVEL
        largest = max(map(abs, self._rates), default=0.0)
        is_known = len(self._rates) >= _LEAST_BLOCKS
        self._rates.append(rate)
        # Where a growth begins, the first change is many times the largest before.
        return min(rate / max(largest, least, 1e-9), 1.0) if is_known else None

    def begin(self, number: int) -> None:
        """A growth has begun as many blocks before."""
        blocks = list(self.blocks)
        self.points = blocks[-number - 1 :]
        self.before = max([self.high, *(level for _, level in blocks[: -number - 1])])

    def growth(self, rank: int, measure: str, room: float) -> Growing | None:
        """What grows; None where that is not sure, or does not matter."""
        if len(self.points) < 2 * GROWTH_PARTS:
            return None
        (since_s, low), (until_s, high) = self.points[0], self.points[-1]
        mean, least, last = growth_between_parts(self.points)
        grown = high - max(low, self.before)
        is_short = grown >= (LARGE * low if math.isnan(room) else SOON * room)
        is_sure = least > 0 and last >= STILL_GROWING * mean
        is_large = grown >= LEAST_GROWTH_BYTES and grown >= LEAST_GROWTH_SHARE * low
        if not (is_sure and is_large and (is_short or until_s - since_s >= LASTING_S)):
            return None
        return Growing(rank, measure, since_s, until_s, low, high, mean)


class MemoryGrowth:
    """Takes the windows of all ranks in their order; ``reported`` are those that grow, by rank."""

    def __init__(self) -> None:
        self.reported: dict[int, Growing] = {}
        self._detector = EDetector((LEVEL,), RUN_LENGTH)
        self._series: dict[int, _Series] = {}

    def take(self, one: Sampled, room: float) -> Iterator[tuple[Growing, bool]]:
        """What has begun to grow (true), or no longer does.

        Args:
            one: A window.
            room: Bytes that are available on its host; NaN where that is not known.
        """
        for number, measure in enumerate(GROWING):
            if measure not in one.means:
                continue
            keys = [(one.rank * len(GROWING) + number) * len(BLOCKS_S) + at for at in (0, 1)]
            for key, length_s in zip(keys, BLOCKS_S, strict=True):
                series = self._series.setdefault(key, _Series(length_s))
                value = series.add(one, one.means[measure])
                if value is None:
                    continue
                begun, ended = self._detector.update({key: value})
                if begun:
                    series.begin(self._detector.series[key].num_since_begin())
                # Of GPUs the room is not known.
                own_room = room if measure == RSS else math.nan
                found = series.growth(one.rank, measure, own_room) if series.points else None
                known = self.reported.get(one.rank)
                if found and not ended and (known is None or known.measure == measure):
                    self.reported[one.rank] = found
                    if known is None:
                        yield found, True
                if ended:
                    yield from self._end(one.rank, measure, keys)
                    break

    def _end(self, rank: int, measure: str, keys: Sequence[int]) -> Iterator[tuple[Growing, bool]]:
        """Test anew, in blocks of all lengths: the long ones see an end much later."""
        for key in keys:
            self._detector.series.pop(key, None)
            if (old := self._series.pop(key, None)) is not None:
                high = max([old.high, *(level for _, level in old.blocks)])
                self._series[key] = _Series(old.length_s, high)
        known = self.reported.get(rank)
        if known is not None and known.measure == measure:
            del self.reported[rank]
            yield known, False


def growth_between_parts(points: Sequence[_Point]) -> tuple[float, float, float]:
    """Growth per second between six equal parts: mean, lower end of its interval, the last one.

    The same as ``rank_machine`` has of a run that is over.
    """
    size, more = divmod(len(points), GROWTH_PARTS)
    ends = [0]
    for part in range(GROWTH_PARTS):
        ends.append(ends[-1] + size + (part < more))
    middles = [
        [sum(one[place] for one in points[a:b]) / (b - a) for place in (0, 1)]
        for a, b in itertools.pairwise(ends)
    ]
    rates = [
        (later[1] - one[1]) / (later[0] - one[0]) for one, later in itertools.pairwise(middles)
    ]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
    return mean, mean - T_OF_PARTS * spread / math.sqrt(len(rates)), rates[-1]
