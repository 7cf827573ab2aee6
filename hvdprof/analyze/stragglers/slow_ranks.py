"""Ranks that are slower than the others in most steps, from the beginning or from some step on.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Iterator

import numpy as np

from hvdprof.analyze.stats.change_point import best_splits, has_changed
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import (
    LEAST_STEPS_OF_CAUSE,
    LEVEL_OF_CAUSE,
    MOST_STEPS_SHARE,
    SMALLEST_SHARE,
    Delay,
)
from hvdprof.analyze.stragglers.named_cause import FROM_STEP, PERSISTENT, STRAGGLER
from hvdprof.analyze.stragglers.own_time import lateness
from hvdprof.model.arrays import Bools, Int64s

MOST_LATE_BEFORE = 0.25
"""Share of late steps before the change: with more, the rank is slow throughout."""

STALLS_SHARE = 0.05
"""Share of the longest times that count as the longest of the rest: stalls are no level."""


SAME_STEPS = 0.1
"""Largest distance of the first steps of ranks that are alike, as a share of the steps."""


def slow_ranks(length: Times, step_ns: float) -> Iterator[Delay]:
    """The ranks that are late by 5 % of the step in most steps; those alike are one delay.

    A rank is slow throughout if it is late in two thirds of the steps, and slow from a step on if
    it is late in two thirds of the steps after the best change point (least squares) and in at
    most a quarter before. Its mean lateness must be significantly above 0
    (``analyze.stats.significance``), or above that before the change
    (``analyze.stats.change_point``); both tests share their level among the ranks.

    Args:
        length: [steps, ranks]
        step_ns: Mean step time.
    """
    late = lateness(length)
    first, _ = _slow_from(late, step_ns)
    is_slow = first >= 0
    if not is_slow.any():
        return
    normal = np.flatnonzero(~is_slow)
    if len(normal) > 1:
        # Of many slow ranks the others are no measure: what is normal are the rest.
        middle = np.median(length[:, normal], axis=1, keepdims=True)
        late[:, is_slow] = length[:, is_slow] - middle
        late[:, normal] = lateness(length[:, normal])
    yield from _alike(*_slow_from(late, step_ns), len(late))


def _slow_from(late: Times, step_ns: float) -> tuple[Int64s, Bools]:
    """[ranks] Row from which a rank is slow, -1 if it is not; and whether it changed there."""
    num_ranks = late.shape[1]
    late = np.minimum(late, np.quantile(late, 1 - STALLS_SHARE, axis=0))
    smallest_ns = SMALLEST_SHARE * step_ns
    flags = late >= smallest_ns
    splits = best_splits(late, LEAST_STEPS_OF_CAUSE)
    throughout = (flags.mean(axis=0) >= MOST_STEPS_SHARE) & (late.mean(axis=0) >= smallest_ns)
    changed = _changes(late, flags, splits, smallest_ns)
    level = LEVEL_OF_CAUSE / num_ranks
    first = np.full(num_ranks, -1)
    for place in np.flatnonzero(throughout | changed):
        own = late[:, place]
        changed[place] &= has_changed(own, int(splits[place]), level)
        if changed[place]:
            first[place] = splits[place]
        elif throughout[place] and above_zero(own, level):
            first[place] = 0
    return first, changed & (first >= 0)


def _alike(first: Int64s, changed: Bools, num_steps: int) -> Iterator[Delay]:
    """Ranks that are slow throughout, and those that are from about the same step on."""
    left = [int(place) for place in np.argsort(first, kind="stable") if first[place] >= 0]
    while left:
        begin, is_changed = first[left[0]], changed[left[0]]
        alike = [
            place
            for place in left
            if changed[place] == is_changed and first[place] - begin <= SAME_STEPS * num_steps
        ]
        left = [place for place in left if place not in alike]
        affected = np.zeros((num_steps, len(first)), dtype=bool)
        affected[:, alike] = np.arange(num_steps)[:, None] >= first[alike]
        pattern = FROM_STEP if is_changed else PERSISTENT
        yield Delay(STRAGGLER, tuple(sorted(alike)), pattern, affected)


def _changes(late: Times, flags: Bools, splits: Int64s, smallest_ns: float) -> Bools:
    num = len(late)
    if num < 2 * LEAST_STEPS_OF_CAUSE:
        return np.zeros(late.shape[1], dtype=bool)
    is_after = np.arange(num)[:, None] >= splits
    num_after = num - splits
    flags_after = (flags & is_after).sum(axis=0)
    flags_before = flags.sum(axis=0) - flags_after
    excess = (late * is_after).sum(axis=0) - (late * ~is_after).sum(axis=0) * num_after / splits
    return np.asarray(
        (flags_after >= MOST_STEPS_SHARE * num_after)
        & (flags_before <= MOST_LATE_BEFORE * splits)
        & (excess >= smallest_ns * num)
    )
