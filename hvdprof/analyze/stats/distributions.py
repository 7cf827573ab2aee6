"""Quantiles and tails of distributions, from scipy.

Importing scipy takes a tenth of a second: only commands with an interval pay for it.
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NORMAL = NormalDist()


def student_quantile(degrees: float, level: float) -> float:
    """The value below which Student's t lies with the probability ``level``."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, level))


def student_below(degrees: float, value: float) -> float:
    """The probability with which Student's t lies below a value."""
    from scipy.special import stdtr

    return float(stdtr(degrees, value))


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

    As ``scipy.stats.binom.ppf``; importing ``scipy.stats`` takes half a second of every command.
    """
    if num < 1:
        return 0
    from scipy.special import bdtr, bdtrik

    heads = math.ceil(bdtrik(share, num, 0.5))
    one_less = max(heads - 1, 0)
    return one_less if bdtr(one_less, num, 0.5) >= share else heads


def binomial_tail(counts: NDArray[np.int64], num: int, share: float) -> NDArray[np.float64]:
    """The probability of at least so many successes in ``num`` trials, for each count."""
    from scipy.special import bdtrc

    return np.asarray(bdtrc(counts - 1.0, num, share))


def hypergeometric_tail(
    least: int, num: int, places: NDArray[np.int64], total: int
) -> NDArray[np.float64]:
    """The probability that of ``num`` draws out of ``total`` at least so many are ``places``."""
    from scipy.special import gammaln

    def log_choose(of: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        rest = np.maximum(of - chosen, 0)
        return np.asarray(gammaln(of + 1.0) - gammaln(chosen + 1.0) - gammaln(rest + 1.0))

    counts = np.arange(least, num + 1)[:, None]
    others = num - counts
    whole = log_choose(np.array(total), np.array(num))
    terms = np.exp(log_choose(places, counts) + log_choose(total - places, others) - whole)
    possible = (counts <= places) & (others <= total - places)
    return np.asarray(np.where(possible, terms, 0.0).sum(axis=0))
