"""Ranks that lead all others: by more, or more often, than equal ranks would.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Iterator

import numpy as np

from hvdprof.analyze.stats.distributions import binomial_tail
from hvdprof.analyze.stats.regularity import regularity
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import (
    LEVEL_OF_CAUSE,
    SMALLEST_SHARE,
    Delay,
    run_starts,
    scale_of,
)
from hvdprof.analyze.stragglers.named_cause import IRREGULAR, PERIODIC, PERSISTENT, STRAGGLER
from hvdprof.analyze.stragglers.own_time import lateness
from hvdprof.model.arrays import Bools, Int64s

SHORT_SIGMAS = 2.0
"""Standard deviations below the median from which a step is short."""

CHANCE_OF_PERIOD = 1 / 16
"""Accepted chance that a rank which leads significantly is called regular and is not."""


def leading_ranks(length: Times, step_ns: float, steps: Int64s) -> Iterator[Delay]:
    """The ranks whose lead costs 5 % of the step and is significant, each as a delay of its own.

    The lead of the longest rank of a step is its distance to the second longest, which is what the
    step would save. Significant is its mean against that of the median rank (one-sided tests for
    correlated steps, ``analyze.stats.significance``), or the number of leads of 5 % of the step
    (binomial test; steps in a row count once).

    Args:
        length: [steps, ranks]
        step_ns: Mean step time.
        steps: [steps] Their numbers, in which a regular distance is looked for.
    """
    smallest_ns = SMALLEST_SHARE * step_ns
    # In a short step of one rank, as at the end of an epoch, no other rank is late.
    length = np.maximum(length, np.median(length, axis=0) - SHORT_SIGMAS * scale_of(length))
    lead = lead_of(length)
    costly = lead.mean(axis=0) >= smallest_ns
    if not costly.any():
        return
    late = lateness(length)
    for place in np.flatnonzero(costly):
        if not (_stands_out(lead, int(place)) or _leads_often(lead >= smallest_ns)[place]):
            continue
        own, places = late[:, place], (int(place),)
        affected = np.zeros(length.shape, dtype=bool)
        if np.median(own) >= own.mean() / 2:
            affected[:, place] = True
            yield Delay(STRAGGLER, places, PERSISTENT, affected)
            continue
        affected[:, place] = own >= smallest_ns
        starts = np.flatnonzero(run_starts(affected[:, place]))
        grid = regularity(starts, steps)
        if grid is not None and grid.chance <= CHANCE_OF_PERIOD:
            yield Delay(STRAGGLER, places, PERIODIC, affected, grid.period)
        else:
            yield Delay(STRAGGLER, places, IRREGULAR, affected)


def lead_of(times: Times) -> Times:
    """Lead of the longest rank of each step over the second longest, 0 for the others."""
    place = times.argmax(axis=1)
    rows = np.arange(len(times))
    second = np.partition(times, -2, axis=1)[:, -2]
    lead = np.zeros_like(times)
    lead[rows, place] = times[rows, place] - second
    return lead


def _stands_out(lead: Times, place: int) -> bool:
    """Whether the lead of a rank is significantly larger than that of the median of the others."""
    num_ranks = lead.shape[1]
    in_order = np.argsort(lead.mean(axis=0), kind="stable")
    others = in_order[in_order != place]
    return above_zero(
        lead[:, place] - lead[:, others[(num_ranks - 1) // 2]], LEVEL_OF_CAUSE / num_ranks
    )


def _leads_often(leads: Bools) -> Bools:
    """[ranks] Whether the rank leads more often than one of N equal ranks (binomial test)."""
    num_ranks = leads.shape[1]
    counts = run_starts(leads).sum(axis=0)
    num = int(counts.sum())
    tail = binomial_tail(counts, num, 1 / num_ranks) if num else np.ones(num_ranks)
    return np.asarray((counts > 0) & (tail <= LEVEL_OF_CAUSE / num_ranks))
