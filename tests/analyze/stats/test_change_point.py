import numpy as np
import pytest

from hvdprof.analyze.stats.change_point import best_splits, has_changed
from tests.builders.analysis import autoregressive


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
