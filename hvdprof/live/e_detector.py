"""A sequential test that holds its level over a whole run: when does an excess begin, and end.

A Shiryaev-Roberts e-detector (Shin, Ramdas, Rinaldo: "E-detectors", 2022): per series and bet,
``M <- (M + 1) * (1 + share * v)`` with ``v`` the excess beyond a threshold, clipped to -1..1. While
the mean excess stays below the threshold the mean run length until ``M`` reaches ``c`` is at least
``c`` windows, for any distribution and length of the run. The bets are mixed with equal
weights over thresholds and shares. An excess below the smallest threshold is no event: placement
alone makes small lasting differences.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

SHARES = (0.3, 0.6, 0.9)
RUN_LENGTH = 360_000
"""Windows between two false alarms of a job, at least: 100 hours of windows of a second."""

END_LENGTH = 2_000
"""The same for a false end while an excess lasts: it would be found again within a minute."""

HISTORY = 300


@dataclass(slots=True)
class Series:
    """One rank, or the job: its bets, its latest values, and whether its excess is an event."""

    bets: list[float]
    end_bets: list[float] = field(default_factory=lambda: [0.0] * len(SHARES))
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    running: bool = False
    end_level: float = 0.0

    def num_since_begin(self) -> int:
        """Windows since the excess began: those over which it adds up to most, at least 1."""
        return self._num_latest(1.0)

    def num_since_end(self) -> int:
        """Windows since it ended, likewise: those over which it stays away most."""
        return self._num_latest(-1.0)

    def keep_latest(self, number: int) -> None:
        """Drop the values of earlier windows."""
        self.recent = deque(list(self.recent)[-number:], maxlen=HISTORY)

    def _num_latest(self, sign: float) -> int:
        values = [sign * (value - self.end_level) for value in self.recent]
        sums = [0.0, *accumulate(values)]
        lowest = min(range(len(values)), key=lambda place: sums[place], default=0)
        return max(len(values) - lowest, 1)


class EDetector:
    """Tests the excess of several series, window by window.

    Args:
        thresholds: Excess from which on it may be an event, in the unit of the values.
        run_length: Windows between two false begins of any series, at least.
    """

    def __init__(self, thresholds: Sequence[float], run_length: float = RUN_LENGTH) -> None:
        self._bets = [(level, share) for level in thresholds for share in SHARES]
        self._lowest = min(thresholds)
        self._run_length = run_length
        self.series: dict[int, Series] = {}

    def update(self, values: Mapping[int, float]) -> tuple[list[int], list[int]]:
        """Take the values of a window.

        Returns:
            The series whose excess has begun, the strongest evidence first; those where it ended.
        """
        limit = self._run_length * max(len(self.series), len(values)) * len(self._bets)
        begun: list[tuple[float, int]] = []
        ended: list[int] = []
        for name, value in values.items():
            series = self.series.setdefault(name, Series([0.0] * len(self._bets)))
            series.recent.append(value)
            if series.running:
                if self._has_ended(series, value):
                    ended.append(name)
                continue
            evidence = self._evidence(series, value)
            if evidence >= limit:
                begun.append((evidence, name))
        for _, name in begun:
            self._begin(self.series[name])
        return [name for _, name in sorted(begun, reverse=True)], ended

    def _evidence(self, series: Series, value: float) -> float:
        bets = series.bets
        for place, (level, share) in enumerate(self._bets):
            bet = min(max((value - level) / level, -1.0), 1.0)
            # Beyond the limit only the order counts.
            bets[place] = min((bets[place] + 1) * (1 + share * bet), 1e300)
        return sum(bets)

    def _begin(self, series: Series) -> None:
        series.running = True
        series.bets = [0.0] * len(self._bets)
        series.end_bets = [0.0] * len(SHARES)
        latest = list(series.recent)[-20:]
        series.end_level = max(sum(latest) / len(latest) / 2, self._lowest / 2)
        # An end is after the begin, however long it stayed away before.
        series.keep_latest(series.num_since_begin())

    def _has_ended(self, series: Series, value: float) -> bool:
        level = series.end_level
        bet = min(max((level - value) / level, -1.0), 1.0)
        for place, share in enumerate(SHARES):
            series.end_bets[place] = (series.end_bets[place] + 1) * (1 + share * bet)
        if sum(series.end_bets) < END_LENGTH * len(SHARES):
            return False
        series.running = False
        # What is over is no part of an excess that begins later.
        series.keep_latest(series.num_since_end())
        series.bets = [0.0] * len(self._bets)
        return True


def beyond_others(values: Mapping[int, float]) -> dict[int, float]:
    """By how much each value exceeds the median of the others; empty below two values."""
    ordered = sorted(values.items(), key=lambda item: item[1])
    number = len(ordered) - 1
    if number < 1:
        return {}
    found = {}
    for place, (name, value) in enumerate(ordered):
        low, high = ((number - 1) // 2, number // 2)
        below = ordered[low + (low >= place)][1]
        above = ordered[high + (high >= place)][1]
        found[name] = value - (below + above) / 2
    return found
