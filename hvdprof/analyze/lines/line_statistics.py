"""Intervals and tests of times that are known from samples.

The sampling thread wakes after exponential gaps, so its samples are a Poisson process: given what
the ranks did, samples are independent, also those of one long step, and the share of samples is
that of time (R. W. Wolff, "Poisson arrivals see time averages", Operations Research 30, 1982). The
intervals are those of what ran; whether it will again is what the tests over steps and launches
say. A call that holds the interpreter's lock delays a sample, which then falls on its line.
"""

import numpy as np

from hvdprof.analyze.stats.distributions import incomplete_beta
from hvdprof.analyze.stats.uncertainty import wilson
from hvdprof.model.arrays import Float64s

Times = tuple[Float64s, Float64s, Float64s]
"""Values with the lower and the upper ends of their intervals."""


def times_of_lines(counts: Float64s, num: Float64s | float, whole: Float64s | float) -> Times:
    """Times of lines with the ends of their 95 % intervals (Wilson); 0 where nothing was sampled.

    Args:
        counts: Samples of each line.
        num: All samples where it is.
        whole: The time that these stand for; its unit is that of the times.
    """
    num = np.broadcast_to(np.maximum(num, 1.0), counts.shape)
    share = counts / num
    low, high = wilson(share, num)
    return share * whole, low * whole, high * whole


def difference_ends(first: Times, second: Times) -> tuple[Float64s, Float64s]:
    """The 95 % interval of the difference of two independent values, each with its interval.

    MOVER (G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures",
    Statistics in Medicine 27, 2008).

    Args:
        first: The values.
        second: What is subtracted.
    """
    (one, low, high), (other, other_low, other_high) = first, second
    difference = one - other
    below = np.sqrt((one - low) ** 2 + (other_high - other) ** 2)
    above = np.sqrt((high - one) ** 2 + (other - other_low) ** 2)
    return np.asarray(difference - below), np.asarray(difference + above)


def chance_of_excess(count: int, other: int, exposure: float, other_exposure: float) -> float:
    """The chance of so many samples or more of a line, were it as long on both sides.

    The conditional test of two Poisson counts (J. Przyborowski and H. Wilenski, Biometrika 31,
    1940): given their sum, the first is binomial.

    Args:
        count: Samples of the line.
        other: Its samples on the side it is held against.
        exposure: Samples that a line of a given time per step yields there, up to a factor.
        other_exposure: The same of the other side.
    """
    whole = exposure + other_exposure
    if count <= 0 or whole <= 0:
        return 1.0
    return incomplete_beta(count, other + 1, exposure / whole) if exposure < whole else 1.0
