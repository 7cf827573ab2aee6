"""Whether the mean of correlated values is significantly above zero.

Two tests, because each is weak where the other is strong. Student's t with the effective sample
size (:func:`hvdprof.analyze.stats.uncertainty.mean_of`) has more power for small effects in many
values, but little for a level that drifts within few values. The
self-normalised statistic of I. N. Lobato, "Testing that a dependent process is uncorrelated",
Journal of the American Statistical Association 96 (2001), divides by the drift of the values
instead of an estimate of their correlation.
"""

import math

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import mean_of

LEAST_VALUES = 16
"""Below this number, correlated values pass the self-normalised test too often."""

LEVEL_OF_DRIFT_TEST = 1 / 3
"""Share of the level for the self-normalised test: it adds few false alarms."""

_ANGLES = (np.arange(2_000) + 0.5) / 2_000 * math.pi / 2


def above_zero(values: NDArray[np.float64], level: float) -> bool:
    """Whether the mean is significantly above 0.

    Args:
        values: Values in order of time.
        level: Accepted probability of a false alarm for values with mean 0.
    """
    mean = mean_of(values)
    if not mean.value > 0:
        return False
    degrees = mean.num_effective - 1
    if degrees >= 1 and not math.isnan(mean.error):
        quantile = student_quantile(degrees, 1 - level)
        if mean.value > quantile * mean.error:
            return True
    if len(values) < LEAST_VALUES:
        return False
    return chance_of(self_normalised(values)) <= level * LEVEL_OF_DRIFT_TEST


def self_normalised(values: NDArray[np.float64]) -> float:
    """Lobato's statistic: n mean^2 / (n^-2 * sum of squares of the partial sums of deviations).

    Infinite where all values are equal.
    """
    num, mean = len(values), float(values.mean())
    drift = float(np.square(np.cumsum(values - mean)).sum()) / num**2
    return num * mean**2 / drift if drift > 0 else math.inf


def chance_of(statistic: float) -> float:
    """The probability of so large a statistic, and a mean above 0, in many values of mean 0.

    The limit is a squared normal variable by the integral of an independent squared Brownian
    bridge, whose Laplace transform is ``sqrt(u / sinh u)`` with ``u = sqrt(2 s)`` (T. W. Anderson
    and D. A. Darling, Annals of Mathematical Statistics 23, 1952); the normal tail is written as
    an integral over an angle (J. W. Craig, IEEE MILCOM 1991).
    """
    if math.isinf(statistic):
        return 0.0
    if statistic <= 0:
        return 0.5
    u = math.sqrt(statistic) / np.sin(_ANGLES)
    log_of_sinh = u + np.log1p(-np.exp(-2 * u)) - math.log(2)
    return float(np.exp((np.log(u) - log_of_sinh) / 2).mean() / 2)
