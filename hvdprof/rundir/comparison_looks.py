"""After which repeats a comparison that is being measured is looked at, and at which level.

Who looks three times and stops at the first decision is wrong more often than who looks once. At
each of K looks the level is that of S. J. Pocock (Biometrika 64, 1977) with which all together keep
5 %, one-sided (constants: Jennison and Turnbull, Group Sequential Methods with Applications to
Clinical Trials, 2000, table 2.1, alpha 0.1 two-sided).

Tested in ``tests/launch/plan/test_compare_options.py``.
"""

import math

FIRST, SECOND = 3, 6
_POCOCK = (1.645, 1.875, 1.992)


def comparison_looks(most: int) -> tuple[int, ...]:
    """The repeats after which it is looked at, the last one included; three at most."""
    return (*(one for one in (FIRST, SECOND) if one < most), most)


def look_level(most: int) -> float:
    """The one-sided level of every look of a comparison of at most so many repeats."""
    quantile = _POCOCK[len(comparison_looks(most)) - 1]
    return math.erfc(quantile / math.sqrt(2)) / 2
