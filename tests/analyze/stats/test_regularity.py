import numpy as np
import pytest

from hvdprof.analyze.stats.regularity import Grid, _circular_sum, common_grid, is_on, regularity

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


STEPS = np.arange(100)


@pytest.mark.parametrize("period", [2, 3, 7, 20, 33])
@pytest.mark.parametrize("first", [0, 1])
def test_every_kth_step_has_this_period(period: int, first: int) -> None:
    found = regularity(np.arange(first, 100, period), STEPS)

    assert found is not None
    assert found.period == period
    assert found.chance < 0.05
    assert found.on_grid.all()


def test_a_missing_and_an_additional_event_are_tolerated() -> None:
    events = np.array([5, 15, 25, 31, 45, 55, 65, 75, 85, 95])

    found = regularity(events, STEPS)

    assert found is not None
    assert found.period == 10
    assert events[~found.on_grid].tolist() == [31]


def test_a_period_of_time_may_slip_by_a_step() -> None:
    found = regularity(np.array([40, 91, 139, 190, 241, 290]), np.arange(320))

    assert found is not None
    assert found.period == pytest.approx(50, abs=0.5)
    assert found.chance < 0.03


def test_two_events_and_crowded_events_have_no_period() -> None:
    assert regularity(np.array([10, 60]), STEPS) is None
    assert regularity(np.array([50, 51, 52]), STEPS) is None


@pytest.mark.parametrize("period", [6, 10])
def test_steps_that_were_not_measured_neither_break_a_grid_nor_fill_it(period: int) -> None:
    steps = np.setdiff1d(STEPS, [24, 25, 48, 49, 72, 73, 30, 40, 60])
    events = np.flatnonzero(steps % period == 0)

    found = regularity(events, steps)

    assert found is not None
    assert found.period == period
    assert found.on_grid.all()
    assert found.chance < 0.05


def test_events_that_are_regular_among_the_measured_steps_alone_have_no_period() -> None:
    steps = np.setdiff1d(np.arange(60), np.arange(15, 30))

    assert regularity(np.arange(2, 45, 6), np.arange(45)) is not None
    assert regularity(np.array([4, 14, 24, 34]), steps) is None


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_a_grid_is_counted_around_the_end_of_the_period(width: int) -> None:
    counts = np.array([5, 0, 0, 1, 0, 2, 0])

    near = _circular_sum(counts, width)

    places = range(len(counts))
    assert near.tolist() == [
        sum(counts[(place + step) % len(counts)] for step in range(-width, width + 1))
        for place in places
    ]


@pytest.mark.slow
@pytest.mark.parametrize("num_events", [3, 4, 5, 8, 15, 40])
@pytest.mark.parametrize("num_steps", [60, 100, 400])
@pytest.mark.parametrize("has_gaps", [False, True])
def test_random_events_are_as_regular_as_the_stated_chance_or_less(
    num_events: int, num_steps: int, has_gaps: bool
) -> None:
    rng = np.random.default_rng([num_events, num_steps])
    level, runs = 1 / 16, 400
    steps = np.arange(num_steps)
    if has_gaps:
        steps = steps + steps // 18 * 2

    alarms = 0
    for _ in range(runs):
        events = np.sort(rng.choice(num_steps, size=num_events, replace=False))
        found = regularity(events, steps)
        alarms += found is not None and found.chance <= level

    # Two kinds of grids, each at the level at most.
    assert alarms <= 2 * level * runs
