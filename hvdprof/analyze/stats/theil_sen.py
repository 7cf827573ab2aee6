"""Theil and Sen's slope: the median of the slopes between all pairs of points, with its interval.

As ``scipy.stats.theilslopes``, whose import takes half a second of processor time. Sen, Estimates
of the regression coefficient based on Kendall's tau, JASA 63 (1968), equation 2.6.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import normal_quantile


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope with its interval, in units of y divided by those of x."""

    value: float
    low: float
    high: float


def theil_sen(x: NDArray[np.float64], y: NDArray[np.float64], confidence: float) -> Slope:
    """The slope of y over x.

    Args:
        x: The places; at least two of them differ.
        y: The values there.
        confidence: The level of the interval.
    """
    rise, run = y[:, None] - y, x[:, None] - x
    slopes = np.sort(rise[run > 0] / run[run > 0])
    count, num = len(y), len(slopes)
    untied = count * (count - 1) * (2 * count + 5)
    spread = math.sqrt(max(0.0, (untied - _ties(x) - _ties(y)) / 18))
    reach = normal_quantile((1 + confidence) / 2) * spread
    low = max(round((num - reach) / 2) - 1, 0)
    high = min(round((num + reach) / 2), num - 1)
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def _ties(values: NDArray[np.float64]) -> int:
    _, counts = np.unique(values, return_counts=True)
    return int((counts * (counts - 1) * (2 * counts + 5))[counts > 1].sum())
