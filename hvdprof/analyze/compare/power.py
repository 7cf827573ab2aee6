"""What a comparison can decide: the smallest detectable change, and the launches it needs."""

import math
from dataclasses import dataclass

from hvdprof.analyze.compare.outcomes import is_known
from hvdprof.analyze.stats.distributions import noncentral_student_above, student_quantile
from hvdprof.analyze.stats.launch_spread import Spread
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.results.comparison import DEFAULT_LEVEL

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
