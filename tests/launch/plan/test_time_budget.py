"""The time of a tuning."""

import math

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.time_budget import TimeBudget, check_launches


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
