"""The time of a tuning."""

import math

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.time_budget import ASSUMED_UNIT_S, PassTimes, TimeBudget, check_launches
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


@pytest.mark.parametrize(
    ("limit_s", "num"), [(math.inf, math.inf), (130.0, 1), (150.0, 2), (90, 0)]
)
def test_settings_that_fit_leave_time_for_the_check(limit_s: float, num: float) -> None:
    # Launches of 10 s: 9 for the check, and two rounds of the settings with the present one.
    assert check_launches() == 9
    assert TimeBudget(limit_s, Clock()).settings_that_fit(10.0) == num


def test_a_budget_that_is_too_short_names_the_shortest_useful_one() -> None:
    with pytest.raises(UsageError, match="too short to try one setting") as error:
        TimeBudget(100.0, Clock()).require(40.0, 10.0)
    assert error.value.hint == "Shortest useful budget: --budget 170s"
    TimeBudget(170.0, Clock()).require(40.0, 10.0)
    TimeBudget().require(1e9, 1e9)


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
