"""A delay found in the windows of a launch, and the levels of the tests that find it.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.named_cause import FROM_STEP, PAUSE, PERSISTENT, STRAGGLER
from hvdprof.model.arrays import Bools

SMALLEST_SHARE = 0.05
"""Smallest share of the step time for a late step, and for the cost of a named cause."""

MOST_STEPS_SHARE = 2 / 3
"""Share of late steps from which a straggler is persistent."""

FALSE_ALARMS = 0.003
"""Accepted probability of a false alarm in a clean launch, for all tests together."""

NUM_TESTS = 6
"""Slow throughout and from a step on; stalls by rank and by period; leads by size and by number."""

LEVEL_OF_CAUSE = FALSE_ALARMS / NUM_TESTS

LEAST_STEPS_OF_CAUSE = 8

STEPS_APART = {STRAGGLER: 1, PAUSE: 2}
"""Steps without an event between two events: the steps after a pause of all may be long again."""

SLOW = (PERSISTENT, FROM_STEP)
"""Patterns of ranks that are slower, in contrast to stalls."""


@dataclass(frozen=True, slots=True)
class Delay:
    """As ``NamedCause``, with ``places`` (columns) and ``affected`` of the windows."""

    kind: str
    places: tuple[int, ...]
    pattern: str
    affected: Bools
    period: float = NAN


def run_starts(flags: Bools, apart: int = 1) -> Bools:
    """The first true value of each run along the first axis.

    ``apart`` false values, or the beginning, are before it: with more than one, runs with short
    gaps count once.
    """
    before = np.zeros_like(flags)
    for distance in range(1, apart + 1):
        before[distance:] |= flags[:-distance]
    return flags & ~before


def scale_of(times: Times) -> Times:
    """Robust standard deviation along the first axis, from the quartiles."""
    low, high = np.quantile(times, (0.25, 0.75), axis=0)
    return np.asarray((high - low) / 1.349)


def usual(times: Times, affected: Bools) -> Times:
    """[ranks] Median of each rank's steps that are not affected; of all steps where all are."""
    medians = np.empty(times.shape[1])
    for place in range(times.shape[1]):
        free = times[~affected[:, place], place]
        medians[place] = np.median(free if len(free) else times[:, place])
    return medians
