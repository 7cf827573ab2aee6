import math

import numpy as np
import pytest

from hvdprof.analyze.stats.change_point import (
    best_splits,
    chance_of,
    has_changed,
    holm,
    self_normalised,
)
from tests.builders.analysis import autoregressive

LEVEL = 0.0015


def correlated(seed: int, num: int, correlation: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    noise = random.normal(size=num + 200)
    values = np.empty_like(noise)
    values[0] = noise[0]
    for place in range(1, len(noise)):
        values[place] = (
            correlation * values[place - 1] + math.sqrt(1 - correlation**2) * noise[place]
        )
    return values[200:]


# Table 1 of the paper holds these quantiles for both sides together.
@pytest.mark.parametrize(
    ("statistic", "both_sides"), [(28.31, 0.10), (45.4, 0.05), (66.13, 0.025), (99.76, 0.01)]
)
def test_the_limit_is_that_of_the_published_table(statistic, both_sides):
    assert 2 * chance_of(statistic) == pytest.approx(both_sides, rel=0.03)


def test_no_spread_is_no_chance_and_no_mean_is_no_evidence():
    assert self_normalised(np.full(20, 3.0)) == math.inf
    assert chance_of(math.inf) == 0.0
    assert chance_of(0.0) == 0.5


def test_a_level_that_drifts_far_above_zero_is_seen():
    steps = np.arange(23)
    values = 17.0 + 0.4 * steps + np.random.default_rng(1).normal(size=23) * 2.5
    assert chance_of(self_normalised(values)) < LEVEL


@pytest.mark.heavy
@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.006), (0.6, 0.02), (0.8, 0.04)])
def test_values_around_zero_rarely_pass(correlation, most):
    drawn = [correlated(seed, 24, correlation) for seed in range(1_000)]
    passed = [chance_of(self_normalised(values)) <= LEVEL / 3 for values in drawn]
    assert sum(one and values.mean() > 0 for one, values in zip(passed, drawn, strict=True)) <= (
        1_000 * most
    )


def test_the_row_from_which_the_level_differs() -> None:
    values = np.zeros((100, 3))
    values[40:, 0] = 1.0
    values[90:, 1] = -1.0

    assert best_splits(values, 8)[:2].tolist() == [40, 90]


def test_a_change_near_the_ends_is_moved_inside() -> None:
    values = np.zeros((100, 1))
    values[2:] = 1.0

    assert best_splits(values, 8).tolist() == [8]
    assert best_splits(values[:10], 8).tolist() == [5]


def test_only_a_higher_level_is_a_change() -> None:
    noise = np.random.default_rng(0).normal(size=100)
    step = np.where(np.arange(100) < 50, 0.0, 3.0)

    assert has_changed(noise + step, 50, 0.001)
    assert not has_changed(noise - step, 50, 0.001)
    assert not has_changed(noise, 50, 0.05)
    assert has_changed(step, 50, 0.001)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("num", [60, 300])
def test_false_alarms_in_correlated_values(num: int, correlation: float) -> None:
    rng = np.random.default_rng([num, round(10 * correlation)])
    level, runs = 0.05, 400
    values = np.stack([autoregressive(rng, num, correlation) for _ in range(runs)], axis=1)

    splits = best_splits(values, 8)
    alarms = sum(has_changed(values[:, i], int(splits[i]), level) for i in range(runs))

    # A split that is not the largest statistic makes the test cautious.
    assert alarms <= 1.5 * level * runs


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
