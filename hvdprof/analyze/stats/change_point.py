"""Whether, and from when on, the level of correlated values differs.

The test divides the difference of the levels before and after the change by the drift of the values
within either part, instead of an estimate of their correlation (X. Shao and X. Zhang, "Testing for
change points in time series", Journal of the American Statistical Association 105, 2010).
"""

import math

import numpy as np
from numpy.typing import NDArray

from hvdprof.model.arrays import Int64s

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
