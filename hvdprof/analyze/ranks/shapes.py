"""The shape of a delay over the steps: a word for it, and the steps that it lasts.

Whether there is a delay, and whose it is, is known before: nothing here names a rank.
"""

from dataclasses import replace

import numpy as np

from hvdprof.analyze.ranks.delay import (
    LEAST_STEPS_OF_CAUSE,
    SMALLEST_SHARE,
    Delay,
    run_starts,
)
from hvdprof.analyze.ranks.events import CHANCE_OF_KIND, LONG_RUN, Series, runs_from
from hvdprof.analyze.ranks.named_cause import (
    FOR_A_WHILE,
    FROM_STEP,
    GROWING,
    IRREGULAR,
    PERIODIC,
    PERSISTENT,
    STRAGGLER,
)
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools

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
