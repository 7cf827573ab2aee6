"""The simulated jobs of benchmarks.tune_simulated."""

import pytest

from benchmarks.tune_simulated import CHANGES, judged


@pytest.mark.heavy
def test_a_long_cycle_is_predicted_within_the_interval() -> None:
    true, low, middle, high = judged(CHANGES[0], seed=1)
    assert low <= middle <= high
    assert low <= true <= high
    assert true > 0.1
