"""Regressed, improved, equal or inconclusive: a change held against a margin.

Equality is Schuirmann's two one-sided tests (D. J. Schuirmann, Journal of Pharmacokinetics and
Biopharmaceutics 15, 1987); several cells are corrected by S. Holm, Scandinavian Journal of
Statistics 6 (1979).
"""

import math
from collections.abc import Sequence

from hvdprof.analyze.stats.distributions import student_below, student_quantile
from hvdprof.analyze.stats.launch_spread import Spread
from hvdprof.analyze.stats.significance import holm
from hvdprof.analyze.stats.uncertainty import NAN, Interval
from hvdprof.model.results.comparison import DEFAULT_LEVEL, ComparisonOutcome

LEAST_DEGREES = 1.0


def change_interval(change: Spread, level: float = DEFAULT_LEVEL) -> Interval:
    """A change with the interval that decides the outcome; NaN ends where unknown.

    Args:
        change: The change.
        level: Accepted probability of a wrong outcome, one-sided: 0.05 gives the 90 % interval.
    """
    if not is_known(change):
        return Interval(change.value, NAN, NAN)
    reach = student_quantile(change.degrees, 1 - level) * math.sqrt(change.variance)
    return Interval(change.value, change.value - reach, change.value + reach)


def is_known(change: Spread) -> bool:
    """Whether a change has an error: otherwise nothing can be said of it."""
    return not (
        math.isnan(change.value) or math.isnan(change.variance) or change.degrees < LEAST_DEGREES
    )


def outcomes(
    changes: Sequence[Spread], margin: float, level: float = DEFAULT_LEVEL
) -> list[ComparisonOutcome]:
    """The outcome of each of several cells, by one metric.

    1.  REGRESSED: the change is significantly above the margin (one-sided t, Holm over the cells).
    2.  IMPROVED: it is significantly below minus the margin, in the same way.
    3.  EQUAL: it is significantly within the margin on both sides; each cell for itself.
    4.  INCONCLUSIVE: none of these.

    Args:
        changes: The changes, positive where worse.
        margin: The largest change that does not matter, on the scale of the changes.
        level: Accepted probability of a wrong outcome, one-sided.
    """
    return family_outcomes([(change, margin) for change in changes], level)


def family_outcomes(
    family: Sequence[tuple[Spread, float]], level: float = DEFAULT_LEVEL
) -> list[ComparisonOutcome]:
    """The outcomes of changes that keep the level together, each with a margin of its own."""
    above = holm([chance_of_at_most(change, margin) for change, margin in family])
    below = holm([chance_of_at_most(negative(change), margin) for change, margin in family])
    return [
        ComparisonOutcome.REGRESSED
        if a <= level
        else ComparisonOutcome.IMPROVED
        if b <= level
        else ComparisonOutcome.EQUAL
        if _chance_of_beyond(change, margin) <= level
        else ComparisonOutcome.INCONCLUSIVE
        for (change, margin), a, b in zip(family, above, below, strict=True)
    ]


def chance_of_at_most(change: Spread, limit: float) -> float:
    """The p-value of the hypothesis that the true change is at most a limit; 1 where unknown."""
    if not is_known(change):
        return 1.0
    distance = change.value - limit
    if change.variance == 0:
        return 0.0 if distance > 0 else 1.0
    return student_below(change.degrees, -distance / math.sqrt(change.variance))


def overall(of_cells: Sequence[ComparisonOutcome], pooled: ComparisonOutcome) -> ComparisonOutcome:
    """The outcome of all cells together.

    One cell that regressed, or the mean of all, makes the whole regressed; without one, a cell or a
    mean that improved makes it improved. All cells equal make it equal (intersection-union).
    """
    comparable = [
        outcome for outcome in of_cells if outcome is not ComparisonOutcome.NOT_COMPARABLE
    ]
    if not comparable:
        return ComparisonOutcome.NOT_COMPARABLE
    for outcome in (ComparisonOutcome.REGRESSED, ComparisonOutcome.IMPROVED):
        if outcome in comparable or pooled is outcome:
            return outcome
    return (
        ComparisonOutcome.EQUAL
        if set(comparable) == {ComparisonOutcome.EQUAL}
        else ComparisonOutcome.INCONCLUSIVE
    )


def negative(change: Spread) -> Spread:
    """The change with its sign reversed."""
    return Spread(-change.value, change.variance, change.degrees)


def _chance_of_beyond(change: Spread, margin: float) -> float:
    """The p-value of the hypothesis that the true change is not within the margin."""
    return max(chance_of_at_most(change, -margin), chance_of_at_most(negative(change), -margin))
