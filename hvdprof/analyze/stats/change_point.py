"""Whether, and from when on, the level of correlated values differs, and their mean is above 0.

The test divides the difference of the levels before and after the change by the drift of the values
within either part, instead of an estimate of their correlation (X. Shao and X. Zhang, "Testing for
change points in time series", Journal of the American Statistical Association 105, 2010).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hvdprof.model.arrays import Int64s

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


_ROOTS_OF_STATISTIC = (math.sqrt(68.6), math.sqrt(121.9))
"""Of the paper's table 1: square roots of the values that chance exceeds in 1 % and 0.1 %."""


def best_splits(values: NDArray[np.float64], least: int) -> Int64s:
    """[columns] Row from which the mean of each column differs most, by least squares.

    Args:
        values: [rows, columns] In order of time.
        least: Rows on either side; the middle row is returned where there are too few.
    """
    num = len(values)
    if num < 2 * least:
        return np.full(values.shape[1], num // 2)
    sums = np.cumsum(values - values.mean(axis=0), axis=0)[least - 1 : num - least]
    left = np.arange(least, num - least + 1)[:, None]
    return np.asarray(least + (sums**2 / (left * (num - left))).argmax(axis=0))


def has_changed(values: NDArray[np.float64], split: int, level: float) -> bool:
    """Whether the mean from a row on is significantly higher than before.

    Args:
        values: In order of time.
        split: The row, chosen among all rows.
        level: Accepted probability of a false alarm, for values without a change.
    """
    before, after = values[:split], values[split:]
    if not after.mean() > before.mean():
        return False
    num = len(values)
    shift = split * (num - split) * (float(after.mean()) - float(before.mean()))
    drift = _squares(before) + _squares(after)
    return shift**2 / num > _critical(level) * drift if drift > 0 else True


def _squares(values: NDArray[np.float64]) -> float:
    return float(np.square(np.cumsum(values - values.mean())).sum())


def _critical(level: float) -> float:
    """The statistic that chance exceeds with the probability ``level``.

    Its square root grows with the logarithm of the level, as in the paper's table.
    """
    at_percent, at_permille = _ROOTS_OF_STATISTIC
    return (at_percent + (at_permille - at_percent) * math.log10(0.01 / level)) ** 2


def holm(chances: Sequence[float]) -> list[float]:
    """P-values adjusted for their number: reject where at most the level (Holm's step-down)."""
    adjusted = [1.0] * len(chances)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[index]))
        adjusted[index] = largest
    return adjusted
