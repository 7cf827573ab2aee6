"""The change of a mean over launches between two runs, and its p-value.

Tested in ``tests/analyze/compare/test_rank_changes.py``.
"""

import math

from hvdprof.analyze.compare.outcomes import is_known
from hvdprof.analyze.stats.distributions import student_below
from hvdprof.analyze.stats.launch_spread import Spread, less, spread
from hvdprof.analyze.steps.step_work import Times

ROUNDING = 1e-6
"""Shares of a step below this are rounding errors: times are recorded in whole nanoseconds."""


def change_of(first: Times, second: Times, *, is_paired: bool) -> Spread:
    """Second minus first: of pairs of launches, or of two independent means (Welch).

    Args:
        first: [launches] Values of the first run.
        second: [launches] Values of the second run.
        is_paired: Whether launches of the same place are pairs.
    """
    if is_paired:
        return spread((second - first).tolist())
    return less(spread(second.tolist()), spread(first.tolist()))


def chance_of(change: Spread, step_ns: float) -> float:
    """The two-sided p-value of a change (Student t); 1 where its error is unknown.

    Args:
        change: The change, ns.
        step_ns: Step time, below whose rounding error nothing changed.
    """
    if not is_known(change) or abs(change.value) <= ROUNDING * step_ns:
        return 1.0
    if change.variance == 0:
        return 0.0
    return 2 * student_below(change.degrees, -abs(change.value) / math.sqrt(change.variance))
