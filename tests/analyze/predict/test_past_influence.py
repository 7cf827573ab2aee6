import math

import pytest

from hvdprof.analyze.predict.job_forecast import past_influence

TWO = ((2.0, math.log(1.2)), (4.0, -math.log(1.2)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([0.041], "the 90 % band on 64 ranks is 4 points wider."),
        ([-0.02], "the 90 % band on 64 ranks is 2 points narrower."),
        ([0.001], "the 90 % band on 64 ranks stays as wide."),
        ([0.01, 0.12], "the 90 % band on 64 ranks is up to 12 points wider."),
    ],
)
def test_the_change_of_the_band_is_named(changes: list[float], expected: str) -> None:
    assert past_influence(TWO, changes, 64).endswith(expected)


def test_errors_are_relative_to_the_prediction() -> None:
    """A step of 120 and of 83 % of the predicted one: off by 20 and 17 %."""
    assert past_influence(TWO, [0.0], 8).startswith(
        "2 earlier forecasts of this folder were off by 18.3 % in the median: "
    )
    assert past_influence(TWO[:1], [0.0], 8).startswith(
        "1 earlier forecast of this folder was off by 20.0 %: "
    )
