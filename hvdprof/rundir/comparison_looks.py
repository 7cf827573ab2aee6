"""After which repeats a comparison that is being measured is looked at, and at which level.

Who looks three times and stops at the first decision is wrong more often than who looks once. All
looks have the same level (as S. J. Pocock, Biometrika 64, 1977), with which all together keep 5 %,
one-sided. Pocock's constants are those of known variances and equal distances. The looks here are
after 3, 6 and N repeats, and Student's t of few launches forgets more between two looks. So the
levels are simulated: 4,000,000 series of normal differences for every N
(``python -m benchmarks.compare_simulated`` checks them).

Tested in ``tests/launch/plan/test_compare_options.py``.
"""

import bisect

FIRST, SECOND = 3, 6

_LEVELS = {
    3: 0.05,
    4: 0.0320,
    5: 0.0293,
    6: 0.0281,
    7: 0.0232,
    8: 0.0218,
    9: 0.0210,
    10: 0.0204,
    12: 0.0198,
    15: 0.0194,
    20: 0.0189,
    30: 0.0186,
    50: 0.0184,
    100: 0.0182,
}
"""One-sided level of every look, by the most repeats; for numbers between, the larger one counts.
"""

_LEVEL_OF_MORE = 0.05 / 3
"""That of three independent looks."""


def comparison_looks(most: int) -> tuple[int, ...]:
    """The repeats after which it is looked at, the last one included; three at most."""
    return (*(look for look in (FIRST, SECOND) if look < most), most)


def look_level(most: int) -> float:
    """The one-sided level of every look of a comparison of at most so many repeats."""
    known = list(_LEVELS)
    place = bisect.bisect_left(known, most)
    return _LEVELS[known[place]] if place < len(known) else _LEVEL_OF_MORE
