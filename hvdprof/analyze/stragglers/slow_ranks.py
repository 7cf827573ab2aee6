"""Ranks that are slower than the others in most steps, from the beginning or from some step on.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Iterator

import numpy as np

from hvdprof.analyze.stats.change_point import best_splits, has_changed
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import (
    LEAST_STEPS,
    LEVEL,
    MOST_STEPS_SHARE,
    SMALLEST_SHARE,
    Delay,
)
from hvdprof.analyze.stragglers.named_cause import FROM_STEP, PERSISTENT, STRAGGLER
from hvdprof.analyze.stragglers.windows import lateness
from hvdprof.model.arrays import Bools, Int64s

MOST_LATE_BEFORE = 0.25
"""Share of late steps before the change: with more, the rank is slow throughout."""

STALLS_SHARE = 0.05
"""Share of the longest times that count as the longest of the rest: stalls are no level."""


def slow_ranks(length: Times, step_ns: float) -> Iterator[Delay]:
    """The ranks that are late by 5 % of the step in most steps, each as a delay of its own.

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
    slow = {one.places[0] for one in _late_in_most_steps(late, step_ns)}
    normal = [place for place in range(length.shape[1]) if place not in slow]
    if not slow:
        return
    if len(normal) > 1:
        # Of many slow ranks the others are no measure: what is normal are the rest.
        late[:, list(slow)] = length[:, list(slow)] - np.median(
            length[:, normal], axis=1, keepdims=True
        )
        late[:, normal] = lateness(length[:, normal])
    yield from _late_in_most_steps(late, step_ns)


def _late_in_most_steps(late: Times, step_ns: float) -> Iterator[Delay]:
    num_ranks = late.shape[1]
    late = np.minimum(late, np.quantile(late, 1 - STALLS_SHARE, axis=0))
    smallest_ns = SMALLEST_SHARE * step_ns
    flags = late >= smallest_ns
    splits = best_splits(late, LEAST_STEPS)
    throughout = flags.mean(axis=0) >= MOST_STEPS_SHARE
    changed = _changes(late, flags, splits, smallest_ns)
    for place in np.flatnonzero(throughout | changed):
        own, split = late[:, place], int(splits[place])
        affected = np.zeros(late.shape, dtype=bool)
        places = (int(place),)
        level = LEVEL / num_ranks
        if changed[place] and has_changed(own, split, level):
            affected[split:, place] = True
            yield Delay(STRAGGLER, places, FROM_STEP, affected)
        elif throughout[place] and own.mean() >= smallest_ns and above_zero(own, level):
            affected[:, place] = True
            yield Delay(STRAGGLER, places, PERSISTENT, affected)


def _changes(late: Times, flags: Bools, splits: Int64s, smallest_ns: float) -> Bools:
    num = len(late)
    if num < 2 * LEAST_STEPS:
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
