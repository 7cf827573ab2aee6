import itertools
import math
import time

import numpy as np
import pytest

from hvdprof.analyze.causes.shapley import MOST_PLAYERS, shapley


def by_orders(base, players):
    """The definition: the mean over all orders of what each player adds when it joins."""
    credit = np.zeros(len(players))
    for order in itertools.permutations(range(len(players))):
        times = base.copy()
        for number in order:
            before = times.max(axis=0).sum()
            times = times + players[number]
            credit[number] += times.max(axis=0).sum() - before
    return credit / math.factorial(len(players))


def game(num_players, shape=(4, 30), seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), [rng.exponential(size=shape) for _ in range(num_players)]


def test_the_values_are_the_means_over_all_orders():
    base, players = game(4)

    found = shapley(base, players)

    assert found.values == pytest.approx(by_orders(base, players))


def test_the_values_sum_to_what_all_players_add_together():
    base, players = game(MOST_PLAYERS)

    found = shapley(base, players)

    together = (base + sum(players)).max(axis=0).sum() - base.max(axis=0).sum()
    assert sum(found.values) == pytest.approx(together, rel=1e-12)


def test_alone_is_what_leaves_with_one_player():
    base, players = game(3)

    found = shapley(base, players)

    whole = (base + sum(players)).max(axis=0).sum()
    rest = (base + players[0] + players[2]).max(axis=0).sum()
    assert found.alone[1] == pytest.approx(whole - rest)


def test_two_delays_of_different_ranks_that_hide_each_other_share_their_cost():
    base = np.zeros((2, 10))
    first, second = np.zeros((2, 10)), np.zeros((2, 10))
    first[0], second[1] = 5.0, 5.0

    found = shapley(base, [first, second])

    # Without one of them the other still costs as much.
    assert found.alone == (0.0, 0.0)
    assert found.values == pytest.approx((25.0, 25.0))


def test_a_player_that_adds_nothing_has_no_credit_and_no_replay():
    base, players = game(MOST_PLAYERS)
    nothing = [np.zeros_like(base)] * 5

    found = shapley(base, [*nothing, *players])

    assert found.values[:5] == (0.0,) * 5
    assert found.values[5:] == pytest.approx(shapley(base, players).values)


def test_too_many_players_are_refused():
    base, players = game(MOST_PLAYERS + 1, shape=(2, 2))
    with pytest.raises(ValueError, match="9 players"):
        shapley(base, players)


@pytest.mark.heavy
def test_512_ranks_and_1000_steps_take_seconds():
    base, players = game(MOST_PLAYERS, shape=(512, 1000))

    begin = time.process_time()
    shapley(base, players)

    assert time.process_time() - begin < 10
