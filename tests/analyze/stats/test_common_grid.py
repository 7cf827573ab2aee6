"""Events of several launches on one grid of steps, and of epochs."""

import numpy as np
import pytest

from hvdprof.analyze.stats.common_grid import Grid, common_grid, is_on

LEVEL = 1 / 16


def launch(events, first=6, last=45):
    steps = np.arange(first, last)
    return np.array([step for step in events if first <= step < last]), steps


def test_two_events_of_each_launch_are_periodic_together():
    launches = [launch((14, 29, 44), last=44)] * 3
    assert [len(events) for events, _ in launches] == [2, 2, 2]

    assert common_grid(launches[:1], LEVEL) is None
    assert common_grid(launches, LEVEL) == Grid(period=15, first=14)


def test_one_event_at_the_same_step_of_each_launch_has_no_period():
    assert common_grid([launch((20,))] * 5, LEVEL) is None


def test_launches_that_measured_other_steps_count_those_alone():
    launches = [launch((19, 39), 12, 45), launch((19, 39, 59), 25, 70)]

    found = common_grid(launches, LEVEL)
    assert found == Grid(period=20, first=19)


@pytest.mark.parametrize("epoch", [35, 43, 57])
def test_a_counter_that_restarts_with_each_epoch_is_found(epoch):
    numbers = np.arange(4 * epoch)
    events = numbers[(numbers % epoch % 10 == 9) & (numbers >= 6)]

    found = common_grid([launch(events, last=4 * epoch)], LEVEL)
    assert found is not None
    assert (found.period, found.epoch) == (10, epoch)
    assert found.holds(events).all()


def test_epochs_of_a_whole_number_of_periods_need_no_epoch():
    numbers = np.arange(120)
    found = common_grid([launch(numbers[numbers % 40 % 10 == 9], last=120)], LEVEL)

    assert found == Grid(period=10, first=9)


@pytest.mark.parametrize(("num_launches", "num_events", "num_steps"), [(1, 6, 60), (3, 3, 40)])
def test_events_at_random_steps_have_a_grid_at_most_as_often_as_stated(
    num_launches, num_events, num_steps
):
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        launches = [
            launch(
                np.sort(rng.choice(np.arange(6, num_steps), num_events, replace=False)),
                last=num_steps,
            )
            for _ in range(num_launches)
        ]
        found += common_grid(launches, LEVEL) is not None

    assert found / 300 <= 2 * LEVEL


def test_events_of_other_launches_lie_on_a_known_grid_beyond_chance():
    grid = Grid(period=15, first=14)

    assert is_on(grid, [launch((14, 29), last=44)], LEVEL)
    assert not is_on(grid, [launch((14, 30), last=44)], LEVEL)
    assert not is_on(grid, [launch((13, 28), last=44)], LEVEL)
    # Of three steps on the grid, two without an event speak against it.
    assert not is_on(grid, [launch((14,), last=80)], LEVEL)
