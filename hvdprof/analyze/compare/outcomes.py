"""What a comparison says of a change, by its margin and chance, and what it could detect.

Equality is Schuirmann's two one-sided tests (D. J. Schuirmann, Journal of Pharmacokinetics and
Biopharmaceutics 15, 1987); several cells are corrected by S. Holm, Scandinavian Journal of
Statistics 6 (1979).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.distributions import (
    noncentral_student_above,
    student_below,
    student_quantile,
)
from hvdprof.analyze.stats.uncertainty import NAN, Interval, Spread, less, spread
from hvdprof.analyze.steps.step_work import Times
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


POWER = 0.8
LEAST_LAUNCHES = 3
"""With two a side the spread of launches is hardly known."""

MOST_LAUNCHES = 1_000
"""More launches a side are not worth counting."""


@dataclass(frozen=True, slots=True)
class Design:
    """How a change was measured: launches of each side, and whether they are paired."""

    first: int
    second: int
    is_paired: bool

    def scaled(self, variance: float, num: int) -> float:
        """The variance of the change with so many launches a side."""
        if self.is_paired:
            return variance * self.first / num
        return variance / (1 / self.first + 1 / self.second) * 2 / num

    def degrees(self, num: int) -> float:
        """The degrees of freedom of its error with so many launches a side."""
        return num - 1.0 if self.is_paired else 2.0 * (num - 1)


def detectable_change(change: Spread, margin: float, level: float = DEFAULT_LEVEL) -> float:
    """The smallest true change that would be called regressed with 80 % probability.

    ``margin + (t(1 - level) + t(0.8)) * error``; NaN where the error is unknown.
    """
    if not is_known(change):
        return NAN
    quantile = student_quantile(change.degrees, 1 - level)
    factor = quantile + student_quantile(change.degrees, POWER)
    return margin + factor * math.sqrt(change.variance)


def launches_needed(
    change: Spread, margin: float, design: Design, level: float = DEFAULT_LEVEL
) -> int | None:
    """Launches a side that would decide with 80 % probability, if the change is as measured.

    None where the error is unknown, or more than ``MOST_LAUNCHES`` are needed, as for a change as
    large as the margin.
    """
    if not is_known(change) or _power(change, margin, design, MOST_LAUNCHES, level) < POWER:
        return None
    low, high = LEAST_LAUNCHES, MOST_LAUNCHES
    while low < high:
        middle = (low + high) // 2
        if _power(change, margin, design, middle, level) >= POWER:
            high = middle
        else:
            low = middle + 1
    return low


def _power(change: Spread, margin: float, design: Design, num: int, level: float) -> float:
    """The probability of any decision with so many launches a side."""
    variance, degrees = design.scaled(change.variance, num), design.degrees(num)
    size = abs(change.value)
    if variance == 0:
        return 1.0 if size != margin else 0.0
    error, quantile = math.sqrt(variance), student_quantile(degrees, 1 - level)
    beyond, *within = (
        noncentral_student_above(degrees, distance / error, quantile)
        for distance in (size - margin, margin + size, margin - size)
    )
    return max(beyond, sum(within) - 1.0)
