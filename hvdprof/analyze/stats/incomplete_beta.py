"""The regularized incomplete beta function: tails of Student's t and of the binomial distribution.

``scipy.special`` has it, and takes an eighth of the processor time of a short ``hvdprof analyze``
to import. DLMF 8.17: the continued fraction 8.17.22, evaluated by Lentz's method.
"""

import math

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
