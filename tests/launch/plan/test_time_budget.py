"""The time of a tuning."""

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.time_budget import (
    ASSUMED_UNIT_S,
    LaunchLength,
    PassTimes,
    TimeBudget,
    race_launches,
    useful_budget_s,
)
from hvdprof.rundir.manifest import PassRecord, Status
from tests.builders.bench_settings import LOCAL_FOUR_CORES, MNIST, RESNET, bench_settings


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_is_used_since_the_beginning() -> None:
    clock = Clock()
    budget = TimeBudget(60.0, clock)
    clock.now += 20
    assert (budget.used_s, budget.left_s) == (20.0, 40.0)


LAUNCH = LaunchLength(start_s=4.0, step_s=0.1, num_steps=160)
"""A launch of 20 s, of 7 s at least."""


@pytest.mark.parametrize(
    ("left_s", "expected"),
    [
        (1000.0, (2, 160)),
        # 15 launches of two settings: their steps are what is left.
        (225.0, (2, 110)),
        (105.0, (2, 30)),
        (104.0, (1, 64)),
        (70.0, (1, 30)),
        (69.0, (0, 160)),
    ],
)
def test_launches_are_shortened_before_settings_are_left_out(left_s, expected) -> None:
    assert [race_launches(number) for number in (1, 2, 3)] == [10, 15, 17]
    assert LAUNCH.race_within(left_s, 2) == expected
    assert LAUNCH.shortest_race_s == pytest.approx(70.0)


def test_a_launch_whose_steps_are_unknown_is_not_shortened() -> None:
    launch = LaunchLength(20.0, 0.0, 0)
    assert launch.race_within(199.0, 1) == (0, 0)
    assert launch.race_within(201.0, 3) == (1, 0)


@pytest.mark.parametrize("launch", [LAUNCH, LaunchLength(20.0, 0.0, 0), LaunchLength(0.0, 1.0, 8)])
def test_the_useful_budget_holds_the_shortest_race_even_where_launches_get_longer(launch) -> None:
    budget_s = useful_budget_s(launch.shortest_race_s)
    longer = LaunchLength(1.05 * launch.start_s, 1.05 * launch.step_s, launch.num_steps)
    assert longer.race_within(budget_s, 5)[0] >= 1
    assert budget_s % 10 == 0


def test_a_budget_without_room_for_the_present_setting_names_a_useful_one() -> None:
    with pytest.raises(
        UsageError, match="the present setting alone takes about 1 min 50 s"
    ) as error:
        TimeBudget(100.0, Clock()).require(110.0, 300.0, "2 launches of runs/a")
    assert "(2 launches of runs/a)" in error.value.message
    assert error.value.hint.startswith("With a race of one setting: --budget 340s, or fewer steps")
    TimeBudget(110.0, Clock()).require(110.0, 300.0, "")
    TimeBudget().require(1e9, 1e9, "")


def _passes(**changes: object) -> list[PassRecord]:
    timed = {"max_seconds": 1.5, "num_steps": None, "models": (MNIST, RESNET)} | changes
    return plan_design(bench_settings(**timed), LOCAL_FOUR_CORES).passes


def _ended(record: PassRecord, duration_s: float, status: str = Status.DONE) -> PassRecord:
    record.status, record.duration_s = status, duration_s
    return record


def test_without_any_pass_a_start_is_assumed() -> None:
    record = _passes()[0]
    assert PassTimes([]).seconds(record) == pytest.approx(3 * ASSUMED_UNIT_S + 2 * 1.5)
    assert PassTimes([]).num_passes == 0


def test_steps_of_unknown_length_have_no_estimate() -> None:
    passes = _passes(max_seconds=None, num_steps=20)
    assert PassTimes([]).seconds(passes[0]) is None
    assert PassTimes([]).total(passes) is None
    # One launch shows how long the others may take.
    assert PassTimes([_ended(passes[0], 12.0)]).seconds(passes[1]) == pytest.approx(12.0)


def test_a_pass_takes_as_long_as_those_of_its_kind() -> None:
    torch, one, two, trace = _passes()
    ended = [_ended(torch, 9.0), _ended(two, 15.0), _ended(one, 100.0, Status.FAILED)]
    times = PassTimes(ended)
    assert times.num_passes == 2
    assert times.seconds(torch) == pytest.approx(9.0)
    assert times.seconds(two) == pytest.approx(15.0)
    # Of other kinds the mean: units of 2 and 4 s, 3 units and 3 measured seconds.
    assert times.seconds(trace) == pytest.approx(3 * 3 + 3)
    assert times.total([torch, two]) == pytest.approx(24.0)


def test_fewer_models_and_more_measured_seconds_change_the_estimate() -> None:
    two = _passes()[2]
    smaller = _passes(models=(MNIST,), max_seconds=5.0)[2]
    times = PassTimes([_ended(two, 15.0)])
    assert times.seconds(smaller) == pytest.approx(2 * 4 + 5)
    assert times.start_seconds(two) == pytest.approx(6.0)
