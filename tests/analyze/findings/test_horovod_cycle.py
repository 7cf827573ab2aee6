import pytest

from hvdprof.analyze.findings.horovod_cycle import longer_cycles


@pytest.mark.parametrize(
    ("present_ms", "step_ms", "expected"),
    [
        (1.0, 100.0, [2.5, 5.0, 10.0]),
        (5.0, 100.0, [10.0]),
        (1.0, 9.0, []),
        (1.0, 10.0, [2.5]),
        (10.0, 100.0, []),
        (1.0, float("nan"), []),
    ],
)
def test_a_longer_cycle_is_longer_than_the_present_one_and_at_most_a_quarter_of_the_step(
    present_ms, step_ms, expected
):
    assert longer_cycles(present_ms, step_ms) == expected
