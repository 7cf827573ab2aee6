"""Uncertainty of means over steps and launches; docs/explain/efficiency.md has the method.

Sources: initial positive sequence, C. J. Geyer, "Practical Markov Chain Monte Carlo", Statistical
Science 7 (1992); degrees of freedom of a sum of variances, F. E. Satterthwaite, Biometrics
Bulletin 2 (1946); the launch as the unit that is repeated, T. Kalibera and R. Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import (
    fair_coin_quantile,
    normal_quantile,
    student_quantile,
)
from hvdprof.model.arrays import Float64s

CONFIDENCE = 0.95
NAN = float("nan")
LARGEST_LOG = 700.0
"""Largest argument of the exponential within the range of floats."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, its standard error, and the effective sample size."""

    value: float
    error: float
    num_effective: float

    def interval(self) -> "Interval":
        """The mean with its 95 % interval (Student t); NaN ends below 2 effective values."""
        degrees = self.num_effective - 1
        if math.isnan(self.error) or not degrees >= 1:
            return Interval(self.value, NAN, NAN)
        reach = student_quantile(degrees, (1 + CONFIDENCE) / 2) * self.error
        return Interval(self.value, self.value - reach, self.value + reach)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its 95 % interval, NaN without an interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LogEstimate:
    """The logarithm of a positive quantity with standard error and degrees of freedom.

    ``pool`` names the group of cells whose launches determine the error; empty for the cell's own
    values.
    """

    value: float
    error: float
    degrees: float
    pool: str = ""

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The quantity itself with its interval (Student t on the logarithm), 95 % by default."""
        if math.isnan(self.value):
            return Interval(NAN, NAN, NAN)
        if math.isnan(self.error) or not self.degrees >= 1:
            return Interval(math.exp(self.value), NAN, NAN)
        reach = student_quantile(self.degrees, (1 + confidence) / 2) * self.error
        low, high = self.value - reach, self.value + reach
        return Interval(math.exp(self.value), math.exp(low), math.exp(min(high, LARGEST_LOG)))


def autocorrelation_time(values: NDArray[np.float64]) -> float:
    """``1 + 2 * sum of the autocorrelations``: values per independent value, at least 1.

    The sum runs over Geyer's initial positive sequence: pairs of neighbouring lags, up to the first
    pair whose sum is not positive. Estimated correlations of n values are too low by about the
    autocorrelation time divided by n, because the mean is estimated too; a second pass corrects
    this. Negative autocorrelation would make the mean more precise than independent values; this
    gain is not used: a first autocorrelation below -2 / sqrt(n), beyond chance, gives 1.
    """
    num = len(values)
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * num)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2)[:num]
    if num < 4 or covariance[0] <= 1e-24 * float(np.square(values).sum()):
        return 1.0
    correlations = covariance / covariance[0]
    if correlations[1] < -2 / math.sqrt(num):
        # The correction below would take the pairs of a series that alternates for positive ones.
        return 1.0
    pairs = correlations[: num // 2 * 2].reshape(-1, 2).sum(axis=1)
    first_pass = _sum_of_positive(pairs)
    return _sum_of_positive(pairs + 2 * min(first_pass / num, 0.25))


def _sum_of_positive(pairs: NDArray[np.float64]) -> float:
    not_positive = np.flatnonzero(pairs <= 0)
    last = not_positive[0] if len(not_positive) else len(pairs)
    return max(1.0, float(2 * pairs[:last].sum() - 1))


def mean_of(values: NDArray[np.float64]) -> Mean:
    """The mean of correlated values; the error is NaN for an effective sample size below 2.

    The effective sample size is at most the number of values, as for values that alternate. The
    variance is divided by ``n_eff - 1``, which corrects both the division by n and the loss of
    variance to the estimated mean of correlated values.
    """
    num = len(values)
    if num == 0:
        return Mean(NAN, NAN, 0.0)
    num_effective = num / autocorrelation_time(values)
    if num_effective < 2:
        return Mean(float(values.mean()), NAN, num_effective)
    error = math.sqrt(float(values.var()) / (num_effective - 1))
    return Mean(float(values.mean()), error, num_effective)


def median_of(values: NDArray[np.float64], *, correlated: bool = False) -> Interval:
    """The median with the interval of order statistics; NaN ends for too few values.

    Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.6. For correlated
    values, in order of time, the effective sample size counts.

    Args:
        values: One or more.
        correlated: Whether neighbouring values can be correlated.
    """
    ordered = np.sort(values)
    num = len(ordered)
    num_effective = int(num / autocorrelation_time(values)) if correlated else num
    below = fair_coin_quantile((1 - CONFIDENCE) / 2, num_effective)
    median = float(np.median(ordered))
    if below < 1:
        return Interval(median, NAN, NAN)
    # The share of values below the interval is that of the effective sample.
    left_out = below * num // num_effective
    return Interval(median, float(ordered[left_out - 1]), float(ordered[-left_out]))


def difference(of: LogEstimate, to: LogEstimate) -> LogEstimate:
    """The logarithm of the ratio ``of / to``; degrees of freedom by Welch and Satterthwaite.

    Two estimates with the error of the same pool share its degrees of freedom instead: their
    errors are not independent of each other.
    """
    value = of.value - to.value
    variance = of.error**2 + to.error**2
    if of.pool and of.pool == to.pool:
        return LogEstimate(value, math.sqrt(variance), of.degrees, of.pool)
    if math.isnan(variance) or variance == 0:
        return LogEstimate(value, variance, min(of.degrees, to.degrees))
    spread = of.error**4 / of.degrees + to.error**4 / to.degrees
    return LogEstimate(value, math.sqrt(variance), variance**2 / spread)


def wilson(shares: Float64s, numbers: Float64s) -> tuple[Float64s, Float64s]:
    """The ends of the 95 % intervals of shares of ``numbers`` trials (Wilson, JASA 22, 1927).

    Args:
        shares: The shares.
        numbers: Independent trials of each; 1 at least.
    """
    z = normal_quantile((1 + CONFIDENCE) / 2)
    scale = 1 + z**2 / numbers
    middle = (shares + z**2 / (2 * numbers)) / scale
    reach = z / scale * np.sqrt(shares * (1 - shares) / numbers + z**2 / (4 * numbers**2))
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


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
