"""Shapley values of what delays a sum of maxima, by replays of all subsets.

The game: each player adds its own array to the times of the ranks; the cost of a set of players is
the sum over steps of the longest rank. Causes overlap, because only the longest rank counts. The
Shapley value (L. S. Shapley, "A value for n-person games", 1953) is the mean over all orders of
what a player adds when it joins. The values sum exactly to the cost of all players, and depend on
no order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.steps.step_work import Times

MOST_PLAYERS = 8
"""2^7 = 128 replays per launch."""


@dataclass(frozen=True, slots=True)
class Credits:
    """Credit of each player, in the order given.

    ``values`` are the Shapley values; ``alone`` is what the cost loses if one player alone leaves.
    """

    values: tuple[float, ...]
    alone: tuple[float, ...]


def shapley(base: Times, players: Sequence[Times]) -> Credits:
    """The credit of each player for the sum over columns of the largest value.

    The game of removing players from the whole has the same Shapley values as that of adding them.
    A player that adds nothing has the credit 0 and costs no replay.

    Args:
        base: [ranks, steps] Times without any player.
        players: The arrays [ranks, steps] that the players add.

    Raises:
        ValueError: More than ``MOST_PLAYERS`` players add something.
    """
    active = [number for number, times in enumerate(players) if times.any()]
    if len(active) > MOST_PLAYERS:
        raise ValueError(f"{len(active)} players are more than {MOST_PLAYERS}")
    costs = _costs(base, [players[number] for number in active])
    num, whole = len(active), len(costs) - 1
    members = np.arange(len(costs))
    sizes = np.array([member.bit_count() for member in range(len(costs))])
    values, alone = [0.0] * len(players), [0.0] * len(players)
    for place, number in enumerate(active):
        without = members[members & (1 << place) == 0]
        # The share of the orders in which exactly these players come before this one.
        weights = np.array([1 / (num * math.comb(num - 1, size)) for size in sizes[without]])
        added = costs[without | (1 << place)] - costs[without]
        values[number] = float(weights @ added)
        alone[number] = float(costs[whole] - costs[whole ^ (1 << place)])
    return Credits(tuple(values), tuple(alone))


def _costs(base: Times, players: Sequence[Times]) -> Times:
    """Cost of each set of players; bit i of the index is player i.

    Depth first, with one buffer per player: memory does not grow with the number of sets.
    """
    costs = np.empty(1 << len(players))
    buffers = [np.empty_like(base) for _ in players]

    def walk(place: int, times: Times, members: int) -> None:
        if place == len(players):
            costs[members] = times.max(axis=0).sum()
            return
        walk(place + 1, times, members)
        np.add(times, players[place], out=buffers[place])
        walk(place + 1, buffers[place], members | (1 << place))

    walk(0, base, 0)
    return costs
