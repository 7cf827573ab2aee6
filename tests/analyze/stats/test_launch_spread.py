import math

import pytest

from hvdprof.analyze.stats.launch_spread import Spread, less, spread, times


def test_mean_of_launches_with_the_interval_of_student_t() -> None:
    found = spread([1.0, 2.0, 3.0])

    # Variance 1 of 3 launches; t = 4.303 for 2 degrees.
    assert found == Spread(2.0, pytest.approx(1 / 3), 2.0)
    assert found.interval().low == pytest.approx(2 - 4.303 / math.sqrt(3), abs=1e-3)
    assert found.interval().high == pytest.approx(2 + 4.303 / math.sqrt(3), abs=1e-3)


def test_one_launch_has_a_mean_and_no_interval() -> None:
    interval = spread([5.0]).interval()

    assert interval.value == 5
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_no_launch_has_no_mean() -> None:
    assert math.isnan(spread([]).value)


def test_difference_adds_variances_and_degrees_by_welch() -> None:
    # (4 + 1)^2 / (4^2 / 2 + 1^2 / 3)
    assert less(Spread(7.0, 4.0, 2.0), Spread(2.0, 1.0, 3.0)) == Spread(5.0, 5.0, pytest.approx(3))


def test_difference_to_a_single_launch_has_no_interval() -> None:
    found = less(spread([1.0, 3.0]), spread([1.5]))

    assert found.value == 0.5
    assert math.isnan(found.interval().low)


def test_a_factor_is_squared_in_the_variance() -> None:
    assert times(-3.0, Spread(2.0, 0.5, 4.0)) == Spread(-6.0, 4.5, 4.0)
