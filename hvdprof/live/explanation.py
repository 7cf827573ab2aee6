"""Whether cores, a CPU limit or a clock explain a slow rank, by samples since the last look.

The test is that of ``analyze`` for a straggler: its rank is worse than every other one in more of
the same windows than equal ranks are by chance in any of the looks, by a size that matters, and
that explains half of the delay. For a slowdown of all ranks, the windows of each rank are held
against the median of those before.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import cast

from hvdprof import units
from hvdprof.live.rank_feed import FileTail, RankFeed
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.sample_format import (
    CORE_WAIT,
    LIMITS,
    MAIN_THREAD,
    MEASURES,
    SM_CLOCK,
    THROTTLED,
    SamplesLine,
)

_LOOK_S = 5.0
_MOST = 1e18

MOST_CHANCE, LEAST_SIZE, LEAST_EXPLAINED = 0.01, 0.05, 0.5
"""As ``analyze`` has them (a test holds them together)."""

EXPLAINING = (THROTTLED, CORE_WAIT, SM_CLOCK)
USED = frozenset((*EXPLAINING, MAIN_THREAD, *LIMITS)) - {"limited_idle"}


@dataclass(frozen=True, slots=True)
class Sampled:
    """A window of a process, host or GPU: seconds of the host's wall clock, means by measure."""

    rank: int
    scope: str
    begin_s: float
    end_s: float
    means: Mapping[str, float]


class SampleFeed:
    """Follows the samples of all ranks."""

    def __init__(self, folder: Path) -> None:
        self._paths = PassPaths(folder.parent)
        self._folder = folder
        self._tails: dict[int, FileTail] = {}
        self._next_s = 0.0

    def look(self, feeds: Mapping[int, RankFeed], now_s: float) -> list[Sampled]:
        """The windows that were added; damaged lines are reported by ``analyze``.

        Args:
            feeds: The recordings of the ranks, which know what makes a time one of the wall clock.
            now_s: The clock of the watcher.
        """
        is_due = now_s >= self._next_s
        if is_due:
            self._next_s = now_s + _LOOK_S
        found = []
        for rank, feed in feeds.items():
            tail = self._tails.get(rank)
            if tail is None:
                path = self._folder / self._paths.samples_file(rank).name
                tail = self._tails[rank] = FileTail(path)
            # Its header says what makes a time one of the wall clock.
            if not feed.size or not (is_due or tail.is_behind):
                continue
            for text in tail.lines():
                try:
                    found.append(_sampled(rank, text, feed.wall_minus_monotonic_ns))
                except (*DAMAGE, RecursionError):
                    continue
        return found


def _sampled(rank: int, text: bytes, offset_ns: int) -> Sampled:
    line = cast(SamplesLine, from_bytes(text))
    begin_s, end_s = ((int(line[name]) + offset_ns) / 1e9 for name in ("start_ns", "end_ns"))
    means = {str(name): float(mean) for name, _, mean, *_ in line["measures"] if name in MEASURES}
    if not 0 < end_s - begin_s < _MOST or not all(abs(mean) < _MOST for mean in means.values()):
        raise ValueError("a window takes time, and measures are finite")
    return Sampled(rank, str(line["scope"]), begin_s, end_s, means)


@dataclass(frozen=True, slots=True)
class _Difference:
    """A measure on a rank, what it is held against, and in how many windows it is worse.

    More is worse: clocks are negative.
    """

    measure: str
    mean: float
    others: float
    worse: int
    windows: int
    chance: float

    def explains(self, share: float, windows: Sequence[Sampled]) -> bool:
        """Whether it is beyond chance, and large enough for half of a share of the rank's time."""
        size = self.mean - self.others
        if self.measure == SM_CLOCK:
            size = saved = size / max(-self.others, 1.0)
        elif self.measure == THROTTLED:
            # A period may be throttled for any part of it.
            saved = 1.0
        else:
            mean, others = (1 / (1 - min(one, 0.99)) for one in (self.mean, self.others))
            saved = (mean - others) * _mean(windows, MAIN_THREAD)
        is_sure = self.chance <= MOST_CHANCE and 2 * self.worse > self.windows
        return is_sure and size >= LEAST_SIZE and saved >= LEAST_EXPLAINED * share


def explained_rank(rank: int, ranks: Mapping[int, Sequence[Sampled]], share: float) -> str:
    """What differs on a rank in the same windows; empty where that does not explain its delay.

    Args:
        rank: The rank.
        ranks: The windows of every rank since its delay began.
        share: The delay, as a share of the step.
    """
    for measure in EXPLAINING:
        grid = in_same_windows({one: of_measure(own, measure) for one, own in ranks.items()})
        if rank in grid and len(grid) > 1 and grid[rank]:
            others = [row for one, row in grid.items() if one != rank]
            found = _compared(measure, grid[rank], others, 1 / len(grid), len(grid))
            if found.explains(share, ranks[rank]):
                rest = [own for one, own in ranks.items() if one != rank]
                return _said([rank], "others", found, _limits(ranks[rank], rest, "others"))
    return ""


def explained_slowdown(
    before: Mapping[int, Sequence[Sampled]], after: Mapping[int, Sequence[Sampled]], share: float
) -> str:
    """What differs on most ranks from the time before; empty where that explains no slowdown."""
    for measure in EXPLAINING:
        found: dict[int, _Difference] = {}
        for rank, own in after.items():
            values = [mean for *_, mean in of_measure(own, measure)]
            earlier = [mean for *_, mean in of_measure(before.get(rank, ()), measure)]
            if len(earlier) >= len(values) > 0:
                usual = [statistics.median(earlier)] * len(values)
                found[rank] = _compared(measure, values, [usual], 0.5, len(after))
        sure = sorted(rank for rank, one in found.items() if one.explains(share, after[rank]))
        if 2 * len(sure) > len(found):
            own = [one for rank in sure for one in after[rank]]
            limits = _limits(own, [before[rank] for rank in sure], "before")
            return _said(
                sure,
                "before",
                max((found[rank] for rank in sure), key=lambda one: one.chance),
                limits,
            )
    return ""


def of_measure(windows: Iterable[Sampled], measure: str) -> list[tuple[float, float, float]]:
    """Begin, end and mean of the windows that have a measure; clocks are negative."""
    sign = -1 if measure == SM_CLOCK else 1
    return [(w.begin_s, w.end_s, sign * w.means[measure]) for w in windows if measure in w.means]


def in_same_windows(
    ranks: Mapping[int, Sequence[tuple[float, float, float]]],
) -> dict[int, list[float]]:
    """The means of each rank in the windows of the first one that all of them cover.

    Ranks begin their windows at moments of their own: ``rank_machine`` has the same of a run that
    is over.
    """
    ranks = {rank: own for rank, own in ranks.items() if own}
    if not ranks:
        return {}
    start = max(own[0][0] for own in ranks.values())
    end = min(own[-1][1] for own in ranks.values())
    first = next(iter(ranks.values()))
    cut = {min(max(at, start), end) for at in (*(one[0] for one in first), first[-1][1])}
    edges = sorted(cut) if end > start else []
    return {rank: _between(own, edges) for rank, own in ranks.items()}


def _between(own: Sequence[tuple[float, float, float]], edges: Sequence[float]) -> list[float]:
    """The mean of a rank between edges that lie within its windows."""
    times = [*(one[0] for one in own), own[-1][1]]
    lengths = [after - before for before, after in pairwise(times)]
    sums = [0.0, *accumulate(one[2] * length for one, length in zip(own, lengths, strict=True))]
    found = []
    for edge in edges:
        place = min(max(bisect_right(times, edge) - 1, 0), len(own) - 1)
        found.append(sums[place] + (edge - times[place]) * own[place][2])
    return [
        (after - before) / (end - begin)
        for (before, after), (begin, end) in zip(pairwise(found), pairwise(edges), strict=True)
    ]


def _compared(
    measure: str, own: Sequence[float], others: Sequence[Sequence[float]], likely: float, tests: int
) -> _Difference:
    """Own means of windows against the worst of the others; ``likely`` that one is worse.

    The chance is that of any of the looks so far, one with each window.
    """
    worst = [max(values) for values in zip(*others, strict=True)]
    worse = sum(value > bound for value, bound in zip(own, worst, strict=True))
    tail = math.fsum(
        math.comb(len(own), one) * likely**one * (1 - likely) ** (len(own) - one)
        for one in range(worse, len(own) + 1)
    )
    mean = statistics.fmean(statistics.fmean(values) for values in others)
    chance = min(2 * tests * len(own) * tail, 1.0)
    return _Difference(measure, statistics.fmean(own), mean, worse, len(own), chance)


def _mean(windows: Sequence[Sampled], measure: str) -> float:
    means = [mean for *_, mean in of_measure(windows, measure)]
    return statistics.fmean(means) if means else 0.0


def _said(ranks: Sequence[int], against: str, found: _Difference, limits: str) -> str:
    who, others = ranks_named(ranks), "the others" if against == "others" else against
    chance = units.percent(max(found.chance, 1e-4), 2)
    test = f"in {found.worse} of {found.windows} windows, by chance at most {chance}"
    if found.measure == SM_CLOCK:
        lower = units.percent(1 - found.mean / found.others, 0)
        return (
            f"The SM clock of {who} is {-found.mean / 1e6:.0f} MHz, {lower} below that "
            f"{'of ' * (against == 'others')}{others} ({test}){limits}."
        )
    what = {
        CORE_WAIT: "had no core for {} of the time in which it could run",
        THROTTLED: "had used up the CPU limit of its cgroup in {} of the periods",
    }[found.measure].format(units.percent(found.mean, 0))
    usual = units.percent(found.others, 0)
    return f"{who[:1].upper()}{who[1:]} {what}, {others} {usual} (more {test})."


def _limits(own: Sequence[Sampled], rest: Sequence[Sequence[Sampled]], against: str) -> str:
    """``; clock limited by power 62 % of the time (others 0 %)``; empty where none is."""
    text = ""
    for name in LIMITS:
        mean = _mean(own, name)
        others = statistics.fmean(_mean(one, name) for one in rest)
        if MEASURES[name].title and mean - others >= LEAST_SIZE:
            text += (
                f"; {MEASURES[name].title} {units.percent(mean, 0)} of the time "
                f"({against} {units.percent(others, 0)})"
            )
    return text
