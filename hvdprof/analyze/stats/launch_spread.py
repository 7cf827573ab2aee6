"""Means over the launches of a cell with intervals from the spread of launches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, Interval


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over launches with the variance of that mean and its degrees of freedom.

    The variance is NaN for a single launch: the spread is unknown.
    """

    value: float
    variance: float
    degrees: float

    def interval(self) -> Interval:
        """The mean with its 95 % interval (Student t); NaN ends where the variance is unknown."""
        if math.isnan(self.variance) or not self.degrees >= 1:
            return Interval(self.value, NAN, NAN)
        quantile = student_quantile(self.degrees, (1 + CONFIDENCE) / 2)
        reach = quantile * math.sqrt(self.variance)
        return Interval(self.value, self.value - reach, self.value + reach)


def spread(values: Sequence[float]) -> Spread:
    """The mean of one value per launch."""
    given = np.asarray(values, dtype=np.float64)
    if len(given) < 2:
        return Spread(float(given.mean()) if len(given) else NAN, NAN, 0.0)
    return Spread(float(given.mean()), float(given.var(ddof=1)) / len(given), len(given) - 1.0)


def less(of: Spread, other: Spread) -> Spread:
    """The difference of two independent means; degrees of freedom by Welch and Satterthwaite."""
    variance = of.variance + other.variance
    if math.isnan(variance) or variance == 0:
        return Spread(of.value - other.value, variance, min(of.degrees, other.degrees))
    degrees = variance**2 / (
        of.variance**2 / max(of.degrees, 1.0) + other.variance**2 / max(other.degrees, 1.0)
    )
    return Spread(of.value - other.value, variance, degrees)


def times(factor: float, of: Spread) -> Spread:
    """A mean times an exact number."""
    return Spread(factor * of.value, factor**2 * of.variance, of.degrees)
