"""Quantiles and tails of distributions.

Importing ``scipy.special`` takes a tenth of a second: only the rarer ones pay for it.
"""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NORMAL = NormalDist()
_NEARLY_NORMAL = 1e7
"""Degrees of freedom from which Student's t is the normal distribution, to 1e-7."""
_MOST_STEPS = 2_000


@lru_cache(maxsize=4096)
def student_quantile(degrees: float, level: float) -> float:
    """The value below which Student's t lies with the probability ``level``."""
    if math.isnan(degrees) or math.isnan(level) or degrees <= 0 or not 0 <= level <= 1:
        return math.nan
    if level < 0.5:
        return -_student_reach(degrees, level)
    # Beyond the middle 1 - level is exact.
    return _student_reach(degrees, 1 - level)


def _student_reach(degrees: float, above: float) -> float:
    """The value that Student's t exceeds with a probability of at most 0.5.

    The tail is convex: Newton's steps from the normal quantile never pass the value.
    """
    if above in (0, 0.5):
        return math.inf if above == 0 else 0.0
    value = -normal_quantile(above)
    if degrees > _NEARLY_NORMAL:
        return value
    log_norm = (
        math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    )
    for _ in range(_MOST_STEPS):
        log_density = log_norm - (degrees + 1) / 2 * math.log1p(value * value / degrees)
        step = (student_below(degrees, -value) - above) / math.exp(log_density)
        value += step
        if abs(step) <= 1e-13 * value:
            break
    return value


def student_below(degrees: float, value: float) -> float:
    """The probability with which Student's t lies below a value."""
    if math.isnan(degrees) or math.isnan(value) or degrees <= 0:
        return math.nan
    if degrees > _NEARLY_NORMAL:
        return normal_below(value)
    tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + value * value)) / 2
    return tail if value < 0 else 1 - tail


def noncentral_student_above(degrees: float, shift: float, value: float) -> float:
    """The probability with which noncentral t exceeds a value: the power of a one-sided test."""
    from scipy.special import nctdtr

    below = float(nctdtr(degrees, shift, value))
    # Far from the value the sum that scipy takes does not converge.
    return (1.0 if shift > value else 0.0) if math.isnan(below) else 1.0 - below


def normal_below(value: float) -> float:
    """The probability with which a standard normal variable lies below a value."""
    return math.erfc(-value / math.sqrt(2)) / 2


def normal_quantile(level: float) -> float:
    """The value below which a standard normal variable lies with the probability ``level``."""
    return _NORMAL.inv_cdf(level)


def fair_coin_quantile(share: float, num: int) -> int:
    """Quantile of the number of heads in ``num`` throws of a fair coin.

    As ``scipy.stats.binom.ppf``.
    """
    if num < 1:
        return 0
    spread = normal_quantile(share) * math.sqrt(num) / 2
    heads = min(max(round(num / 2 + spread), 0), num)
    # Of an odd number of throws, half of the probability is a rounding error away.
    share *= 1 - 1e-9
    while heads > 0 and _fair_coin_below(heads - 1, num) >= share:
        heads -= 1
    while _fair_coin_below(heads, num) < share:
        heads += 1
    return heads


def _fair_coin_below(heads: int, num: int) -> float:
    """The probability of at most so many heads in ``num`` throws."""
    return 1.0 if heads >= num else incomplete_beta(num - heads, heads + 1, 0.5)


def binomial_tail(counts: NDArray[np.int64], num: int, share: float) -> NDArray[np.float64]:
    """The probability of at least so many successes in ``num`` trials, for each count."""
    distinct, places = np.unique(counts, return_inverse=True)
    tails = [_at_least(int(count), num, share) for count in distinct]
    return np.asarray(tails, dtype=np.float64)[places].reshape(np.shape(counts))


def _at_least(count: int, num: int, share: float) -> float:
    if count <= 0 or count > num:
        return float(count <= 0)
    return incomplete_beta(count, num - count + 1, share)


def hypergeometric_tail(
    least: int, num: int, places: NDArray[np.int64], total: int
) -> NDArray[np.float64]:
    """The probability that of ``num`` draws out of ``total`` at least so many are ``places``."""
    # Importing scipy for its logarithms of factorials takes longer than all of these.
    log_factorial = np.concatenate(([0.0], np.log(np.arange(1, total + 1)).cumsum()))

    def log_choose(of: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        chosen = np.clip(chosen, 0, of)
        return np.asarray(log_factorial[of] - log_factorial[chosen] - log_factorial[of - chosen])

    counts = np.arange(least, num + 1)[:, None]
    others = num - counts
    whole = log_choose(np.array(total), np.array(num))
    terms = log_choose(places, counts) + log_choose(total - places, others) - whole
    possible = (counts <= places) & (others <= total - places)
    return np.asarray(np.exp(np.where(possible, terms, -np.inf)).sum(axis=0))


_TINY = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) for positive a and b: 0 at x = 0, 1 at x = 1.

    The relative error is below 1e-10 where a and b are below 10,000.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    # The fraction converges fast on one side of the mean alone.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    return math.exp(log_front) / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), to machine precision."""
    value = above = 1.0
    below = 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            step = -(a + half) * (a + b + half) / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            step = half * (b - half) / ((a + 2 * half - 1) * (a + 2 * half))
        below = 1 / (1 + step * x * below or _TINY)
        above = 1 + step * x / above or _TINY
        value *= above * below
        if abs(above * below - 1) < _PRECISION:
            break
    return value
