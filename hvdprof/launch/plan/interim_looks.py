"""After which repeats a run is looked at, and by which interval it stops there.

Who looks after every repeat and stops at the first look that suffices, stops too often where the
launches agree by chance. So a run stops by an interval of a higher confidence than the 95 % that it
reports: at each of K looks the one of S. J. Pocock, "Group sequential methods in the design and
analysis of clinical trials", Biometrika 64 (1977), with which all K together keep 5 % (constants:
Jennison and Turnbull, Group Sequential Methods with Applications to Clinical Trials, 2000, table
2.1). The first look, with the fewest launches, spends a quarter of that. How often the reported
intervals then cover the truth is in docs/explain/efficiency.md.
"""

import math

FIRST_LOOK = 3
"""The repeat after which a run can stop first."""

FIRST_SHARE = 0.25

_POCOCK = (1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555)
"""Quantile of the normal distribution at each of that many looks."""

MOST_LOOKS = len(_POCOCK)


def look_repeats(most: int) -> list[int]:
    """The repeats after which a run of at most so many can stop, the last one included."""
    every = max(1, math.ceil((most - FIRST_LOOK) / (MOST_LOOKS - 1)))
    return [*range(FIRST_LOOK, most, every), most]


def stopping_confidence(repeat: int, most: int) -> float:
    """The confidence of the interval by which a run of at most ``most`` repeats stops.

    Args:
        repeat: The repeat after which it is looked at.
        most: The most repeats of the run.
    """
    risk = math.erfc(_POCOCK[len(look_repeats(most)) - 1] / math.sqrt(2))
    return 1 - (risk * FIRST_SHARE if repeat <= FIRST_LOOK else risk)
