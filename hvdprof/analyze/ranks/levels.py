"""Ranks that are later than the others on average, beyond chance.

Tested in ``tests/analyze/ranks/test_names.py``.
"""

import numpy as np

from hvdprof.analyze.ranks.account import costs_of, credit
from hvdprof.analyze.ranks.chances import chances_of_level
from hvdprof.analyze.ranks.delay import FALSE_ALARMS, SMALLEST_SHARE, Delay
from hvdprof.analyze.ranks.named_cause import STRAGGLER
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools

MOST_SEARCHES = 4

ALIKE = 0.7
"""Share of the mean lateness of several ranks from which another one is late with them."""


def _delay(place: int, affected: Bools, chance: float) -> Delay:
    return Delay(STRAGGLER, (place,), affected, is_event=False, chance=min(chance, FALSE_ALARMS))


def late_ranks(excess: Times, step_ns: float) -> list[Delay]:
    """The ranks whose excess costs 5 % of the step and is beyond chance, each as a delay.

    Ranks that are as late as two or more of them belong to them: a permutation of several slow
    ranks gives any of them as much.

    Judged is the credit of a rank against the others, or its mean excess where that is more: among
    many ranks with jitter a slow one has a small share of the cost.

    Args:
        excess: [steps, ranks, phases] without the events.
        step_ns: The mean step time.
    """
    rest = excess.copy()
    num_steps, num_ranks, _ = rest.shape
    found: list[Delay] = []
    for _ in range(MOST_SEARCHES):
        total = rest.sum(axis=2)
        costs = costs_of(rest).sum(axis=2)
        size = np.maximum(credit(total).mean(axis=0), total.mean(axis=0)) / step_ns
        # Ranks that cost nothing together are late beside another one alone.
        if costs.sum() < SMALLEST_SHARE * step_ns * num_steps:
            break
        wanted = size >= SMALLEST_SHARE
        chances = chances_of_level(total, costs, FALSE_ALARMS, wanted)
        sure = np.flatnonzero(wanted & (chances <= FALSE_ALARMS))
        if not len(sure):
            break
        if len(sure) > 1:
            late = total.mean(axis=0)
            sure = np.flatnonzero(wanted & (late >= ALIKE * late[sure].mean()))
        for place in sure:
            affected = np.zeros((num_steps, num_ranks), dtype=bool)
            affected[:, place] = True
            found.append(_delay(int(place), affected, float(chances[place])))
            rest[:, place] = np.where((total[:, place] > 0)[:, None], 0.0, rest[:, place])
    return found
