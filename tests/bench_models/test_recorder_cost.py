"""What the recorder costs: the interval of the median, and one short measurement."""

import json

import pytest

pytestmark = pytest.mark.torch


def test_the_median_interval_is_that_of_the_sign_test():
    from hvdprof.bench_models.recorder_cost import median_interval

    # Of 20 values the 6th and the 15th: 95.9 % (binomial).
    low, middle, high = median_interval([float(value) for value in range(1, 21)])
    assert (low, middle, high) == (6.0, 10.5, 15.0)


def test_a_short_measurement_prints_one_object(capsys: pytest.CaptureFixture[str]):
    from hvdprof.bench_models.recorder_cost import main

    assert main(["--pairs", "2", "--steps", "3", "--batch-size", "8"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert 0 < cost["direct_s"] < cost["step_s"]
    assert cost["cpu"][0] <= cost["cpu"][1] <= cost["cpu"][2]
