"""Whether one rank is the last more often than by chance.

Tested in ``tests/analyze/files/test_straggler_sentence.py`` and ``test_timer_verdict.py``.
"""

import numpy as np

from hvdprof.analyze.stats.distributions import binomial_tail

LEAST_ROUNDS = 4
LARGEST_CHANCE = 0.02
"""Of the same rank being last so often, were the last rank drawn by lot."""


def is_beyond_chance(
    number: int, total: int, num_ranks: int, largest_chance: float = LARGEST_CHANCE
) -> bool:
    """Whether a rank is last too often for chance, in 4 rounds or more.

    The chance is that of a binomial distribution, times the ranks that it may be (Bonferroni).

    Args:
        number: Rounds in which this rank is last.
        total: All rounds.
        num_ranks: Ranks among which one is last.
        largest_chance: Of one of them being last so often, were the last one drawn by lot.
    """
    counts = np.asarray([number], dtype=np.int64)
    chance = num_ranks * float(binomial_tail(counts, total, 1 / num_ranks)[0])
    return number >= LEAST_ROUNDS and chance <= largest_chance
