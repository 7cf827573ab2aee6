import numpy as np
import pytest

from hvdprof.analyze.stats.regularity import _circular_sum, regularity

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
