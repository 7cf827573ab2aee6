"""Whether the mean of correlated values is significantly above zero, though their level drifts.

The self-normalised statistic of I. N. Lobato, "Testing that a dependent process is uncorrelated",
Journal of the American Statistical Association 96 (2001), divides by the drift of the values
instead of an estimate of their correlation. Student's t with the effective sample size
(:func:`hvdprof.analyze.stats.uncertainty.mean_of`) is weak where a level drifts within few values.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEAST_VALUES = 16
"""Below this number, correlated values pass the self-normalised test too often."""

_ANGLES = (np.arange(2_000) + 0.5) / 2_000 * math.pi / 2


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


def holm(chances: Sequence[float]) -> list[float]:
    """P-values adjusted for their number: reject where at most the level (Holm's step-down)."""
    adjusted = [1.0] * len(chances)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[index]))
        adjusted[index] = largest
    return adjusted
