import numpy as np
import pytest

from hvdprof.analyze.ranks.chances import (
    block_length,
    chances_of_costs,
    chances_of_events,
    chances_of_level,
)
from tests.builders.analysis import autoregressive

LEVEL = 0.003


def test_events_of_two_ranks_are_counted_exactly():
    costs = np.zeros((40, 2))
    costs[[3, 9, 20, 31], 1] = 1.0
    # All of four on either of two ranks: 2 of 16 assignments.
    assert chances_of_events(costs, np.array([3, 9, 20, 31]))[1] == 2 / 16


def test_steps_in_a_row_are_one_event():
    costs = np.zeros((40, 2))
    costs[10:20, 1] = 1.0
    assert chances_of_events(costs, np.array([10]))[1] == 1.0


def test_among_more_ranks_as_many_events_are_less_likely():
    costs = np.zeros((40, 8))
    costs[[3, 9, 20, 31, 36], 5] = 1.0
    assert chances_of_events(costs, np.array([3, 9, 20, 31, 36]))[5] < 0.01


@pytest.mark.parametrize("shape", ["throughout", "from a step on", "growing"])
def test_a_level_is_sure_whether_it_lasts_begins_or_grows(shape: str):
    rows = np.arange(60)
    own = {"throughout": 5.0 + 0.0 * rows, "from a step on": 9.0 * (rows > 25), "growing": rows / 6}
    excess = np.random.default_rng(1).normal(0, 2.0, (60, 2))
    excess[:, 1] += own[shape]
    wanted = np.array([False, True])
    chances = chances_of_level(excess, np.maximum(excess, 0), LEVEL, wanted)
    assert (chances[0], chances[1] <= LEVEL) == (1.0, True)


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.006), (0.6, 0.015), (0.8, 0.03)])
def test_noise_is_sure_about_as_often_as_the_level_says(correlation: float, most: float):
    wanted = np.ones(2, dtype=bool)
    alarms = 0
    for seed in range(500):
        rng = np.random.default_rng(seed)
        excess = np.stack([autoregressive(rng, 100, correlation) for _ in range(2)], axis=1)
        chances = chances_of_level(excess, np.maximum(excess, 0), LEVEL, wanted)
        alarms += bool((chances <= LEVEL).any())
    assert alarms <= most * 500


def test_few_blocks_of_correlated_costs_are_no_proof():
    costs = np.zeros((24, 2))
    costs[4:12, 1] = 1.0
    length = block_length(costs, np.array([False, True]))
    assert chances_of_costs([costs], length)[1] > 0.1


@pytest.mark.parametrize("shape", ["a while", "ramp"])
def test_a_delay_that_is_correlated_by_its_shape_is_beyond_chance(shape: str):
    rng = np.random.default_rng(2)
    excess = rng.normal(0, 2, size=(60, 4))
    excess[:, 2] += np.linspace(0, 14, 60) if shape == "ramp" else 0
    excess[15:50, 2] += 20 if shape == "a while" else 0
    wanted = np.arange(4) == 2

    assert block_length(excess, wanted) <= 4 < block_length(excess[:, [1, 2]], wanted[[1, 2]])
    assert chances_of_level(excess, np.maximum(excess, 0), LEVEL, wanted)[2] <= LEVEL
    of_two = chances_of_level(excess[:, 1:3], np.maximum(excess[:, 1:3], 0), LEVEL, wanted[1:3])
    assert of_two[1] <= LEVEL


def test_noise_that_all_ranks_have_gives_long_blocks():
    rng = np.random.default_rng(3)
    excess = np.stack([autoregressive(rng, 100, 0.9) for _ in range(4)], axis=1)

    assert block_length(excess, np.arange(4) == 2) >= 10
