"""Where and when a delay acts: its phase, a word for its shape, and the steps that it lasts.

Whether there is a delay, and whose it is, is known before: nothing here names a rank.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from hvdprof.analyze.ranks.account import known_medians
from hvdprof.analyze.ranks.events import CHANCE_OF_KIND, LONG_RUN, Series, runs_from
from hvdprof.analyze.ranks.named_cause import (
    FOR_A_WHILE,
    FROM_STEP,
    GROWING,
    IRREGULAR,
    LEAST_STEPS_OF_CAUSE,
    PERIODIC,
    PERSISTENT,
    SMALLEST_SHARE,
    STRAGGLER,
    Delay,
    run_starts,
)
from hvdprof.analyze.ranks.rank_times import MIXED
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.arrays import Bools

LEAST_EXPLAINED = 0.8
"""Share of the excess from which a phase is named in any case."""

DOMINANT_SHARE, DOMINANT_RATIO = 0.5, 2.0
"""A phase other than compute is named from half of the excess on, if no other has half as much.

Waiting for data cools caches, so that the forward pass of the same rank takes longer, too: a rank
with 40 ms in its data phase had 74 % of its excess there. Slow compute lengthens forward and
backward in proportion, so neither explains the delay alone.
"""

_COMPUTE = ("forward", "backward")


class OwnTimes:
    """Own times [steps, ranks, phases] of a launch, ns, against those of the other ranks.

    The phases of what is shared cannot serve: of two ranks, the longer one of each phase exceeds
    it, so that noise of the others would count as excess of the late one.
    """

    def __init__(self, own: Times, names: Sequence[str]) -> None:
        self.own = own
        self.names = names

    def phase(self, delay: Delay, free: Bools) -> tuple[str, float]:
        """The phase that explains a delay, and its share; MIXED where no single one does.

        Args:
            delay: Of ranks.
            free: [steps] Where no other delay acts; counts for a delay that lasts.
        """
        return phase_of(self.names, self._by_phase(delay, free))

    @cached_property
    def _over_others(self) -> Times:
        return self.own - _medians_of_others(self.own)

    @cached_property
    def _others_beyond_usual(self) -> Times:
        return _medians_of_others(self.own - np.median(self.own, axis=0))

    def _by_phase(self, delay: Delay, free: Bools) -> Times:
        """[phases] The excess in its steps; of events, beyond the usual."""
        columns = list(delay.places)
        affected = delay.affected[:, columns]
        if not delay.is_event and (affected & free[:, None]).any():
            affected = affected & free[:, None]
        late = self._beyond_usual(delay) if delay.is_event else self._later(delay)
        return np.asarray(np.where(affected[..., None], late, 0.0).sum(axis=(0, 1)))

    def _later(self, delay: Delay) -> Times:
        columns = list(delay.places)
        if len(columns) == 1 and self.own.shape[1] > 1:
            return self._over_others[:, columns]
        others = np.delete(self.own, columns, axis=1)
        times = self.own[:, columns]
        return times - np.median(others, axis=1, keepdims=True) if others.shape[1] else times

    def _beyond_usual(self, delay: Delay) -> Times:
        columns = list(delay.places)
        times = self.own[:, columns]
        free = np.where(delay.affected[:, columns][..., None], np.nan, times)
        times = times - known_medians(free)
        if len(columns) == 1 and self.own.shape[1] > 1:
            return times - self._others_beyond_usual[:, columns]
        others = np.delete(self.own, columns, axis=1)
        if not others.shape[1]:
            return times
        above = others - np.median(others, axis=0)
        return np.asarray(times - np.median(above, axis=1, keepdims=True))


def _medians_of_others(own: Times) -> Times:
    return np.stack([medians_of_others(of_phase) for of_phase in np.moveaxis(own, 2, 0)], axis=2)


def phase_of(names: Sequence[str], excess: Times) -> tuple[str, float]:
    """The phase that explains an excess [phases], and its share; MIXED where no single one does."""
    if len(names) == 1:
        return MIXED, NAN
    largest, whole = int(excess.argmax()), float(excess.sum())
    share = float(excess[largest] / whole) if whole > 0 else NAN
    second = float(np.delete(excess, largest).max(initial=0.0))
    dominates = (
        names[largest] not in _COMPUTE
        and share >= DOMINANT_SHARE
        and excess[largest] >= DOMINANT_RATIO * second
    )
    return (names[largest] if share >= LEAST_EXPLAINED or dominates else MIXED), share


MOST_INSIDE, MOST_OUTSIDE = 2 / 3, 0.25
"""Share of late steps from which a delay lasts, and up to which it does not."""

AT_THE_END = 0.1
"""Share of the steps at either end that a delay which lasts may leave out."""

MOST_REGULAR = 0.6
"""Share of late steps up to which every k-th step is late: every second one, and a few others."""

GROWS_FROM = 0.25
"""Share of its last level up to which a delay that grows begins."""


def described(delay: Delay, excess: Times, series: Series) -> Delay:
    """The delay with its pattern, and the steps that it lasts.

    Args:
        delay: Of ranks, or of all.
        excess: [steps, ranks]
        series: The steps.
    """
    if delay.period == delay.period:
        return replace(delay, pattern=PERIODIC)
    if delay.kind != STRAGGLER or len(delay.places) == excess.shape[1] > 1:
        return replace(delay, pattern=IRREGULAR)
    own = excess[:, list(delay.places)].mean(axis=1)
    return (
        _growing(delay, own, series)
        or _lasting(delay, own, series)
        or _now_and_then(delay, own, series)
    )


def _growing(delay: Delay, own: Times, series: Series) -> Delay | None:
    """Where a line explains the steps better than any change between two levels."""
    num = len(own)
    if num < 2 * LEAST_STEPS_OF_CAUSE:
        return None
    rows = np.arange(num)
    usual = own.clip(*np.quantile(own, (0.02, 0.98)))
    slope, begin = np.polyfit(rows, usual, 1)
    end = begin + slope * (num - 1)
    if slope <= 0 or begin > GROWS_FROM * end or end < 2 * SMALLEST_SHARE * series.step_ns:
        return None
    of_line = float(np.square(usual - begin - slope * rows).sum())
    if of_line >= min(_of_two_levels(usual), 0.5 * float(np.square(usual - usual.mean()).sum())):
        return None
    first = int(np.flatnonzero(begin + slope * rows > 0)[0])
    return replace(_over(delay, rows >= first, GROWING), last_ns=float(end))


def _of_two_levels(values: Times) -> float:
    """The squares that remain around the best two levels."""
    num = len(values)
    sums, squares = np.cumsum(values), np.cumsum(np.square(values))
    left = np.arange(1, num)
    before = squares[:-1] - sums[:-1] ** 2 / left
    after = squares[-1] - squares[:-1] - (sums[-1] - sums[:-1]) ** 2 / (num - left)
    return float((before + after).min())


def _lasting(delay: Delay, own: Times, series: Series) -> Delay | None:
    """Where late steps fill one stretch of the launch, and are rare outside."""
    num, least_ns = len(own), SMALLEST_SHARE * series.step_ns
    high = float(np.quantile(own, 0.9))
    late = own >= max(high / 2, least_ns / 2)
    throughout = float((own >= least_ns).mean()) >= MOST_INSIDE
    first, last = _stretch(late)
    inside, outside = late[first:last], np.concatenate([late[:first], late[last:]])
    if last - first >= LONG_RUN and inside.mean() >= MOST_INSIDE:
        at_begin, at_end = first <= AT_THE_END * num, num - last <= AT_THE_END * num
        if at_begin and at_end:
            return _over(delay, np.ones(num, dtype=bool), PERSISTENT)
        is_bounded = outside.sum() <= MOST_OUTSIDE * len(outside)
        level, elsewhere = float(own[first:last].mean()), _mean(own, first, last)
        is_level = level - elsewhere >= least_ns and elsewhere <= level / 4
        if is_bounded and is_level and inside.sum() >= MOST_INSIDE * late.sum():
            rows = (np.arange(num) >= first) & ((np.arange(num) < last) | at_end)
            return _over(delay, rows, FROM_STEP if at_end else FOR_A_WHILE)
    if throughout and np.median(own) >= own.mean() / 2:
        return _over(delay, np.ones(num, dtype=bool), PERSISTENT)
    return None


def _mean(values: Times, first: int, last: int) -> float:
    outside = np.concatenate([values[:first], values[last:]])
    return float(outside.mean()) if len(outside) else 0.0


def _stretch(late: Bools) -> tuple[int, int]:
    """The stretch in which late steps outnumber the others most."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(late, 0.5, -0.5))])
    lowest = np.minimum.accumulate(sums)
    last = int((sums - lowest).argmax())
    first = int(sums[: last + 1].argmin())
    return first, last


def _now_and_then(delay: Delay, own: Times, series: Series) -> Delay:
    """Late in some steps: in every k-th one, or not."""
    least_ns = SMALLEST_SHARE * series.step_ns
    late = own >= max(float(np.quantile(own, 0.95)) / 2, least_ns)
    if late.mean() <= MOST_REGULAR:
        starts = run_starts(late)
        grid = series.grid(starts)
        if grid is not None and grid.chance <= CHANCE_OF_KIND:
            rows = _over(delay, runs_from(late, starts, grid.on_grid), PERIODIC)
            return replace(rows, period=grid.period, is_event=True)
    if delay.is_event:
        return replace(delay, pattern=IRREGULAR)
    return _over(delay, own >= least_ns, IRREGULAR)


def _over(delay: Delay, rows: Bools, pattern: str) -> Delay:
    """The delay with this pattern in these steps, on average later unless they are events."""
    affected = np.zeros_like(delay.affected)
    affected[np.ix_(rows, np.array(delay.places))] = True
    return replace(delay, affected=affected, pattern=pattern, is_event=False)
