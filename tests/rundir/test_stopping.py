import numpy as np
import pytest

from hvdprof.rundir.stopping import (
    FIRST_LOOK,
    MOST_LOOKS,
    look_repeats,
    stopping_confidence,
)


@pytest.mark.parametrize(
    ("most", "looks"),
    [(3, [3]), (4, [3, 4]), (6, [3, 4, 5, 6]), (10, [3, 4, 5, 6, 7, 8, 9, 10]), (1, [1])],
)
def test_the_repeats_after_which_a_run_can_stop(most: int, looks: list[int]) -> None:
    assert look_repeats(most) == looks


@pytest.mark.parametrize("most", [13, 40, 1000])
def test_long_runs_are_looked_at_seldom(most: int) -> None:
    looks = look_repeats(most)
    assert len(looks) <= MOST_LOOKS
    assert (looks[0], looks[-1]) == (FIRST_LOOK, most)
    assert looks == sorted(set(looks))


@pytest.mark.heavy
@pytest.mark.parametrize("num_looks", [2, 4, 8, 10])
def test_all_looks_together_keep_five_percent(num_looks: int) -> None:
    # Sums of equal groups of a normal variable, looked at after each group.
    rng = np.random.default_rng(num_looks)
    sums = rng.normal(size=(200_000, num_looks)).cumsum(axis=1)
    scores = np.abs(sums) / np.sqrt(np.arange(1, num_looks + 1))
    most = FIRST_LOOK + num_looks - 1
    level = stopping_confidence(most, most)
    quantile = np.quantile(np.abs(rng.normal(size=2_000_000)), level)
    assert (scores > quantile).any(axis=1).mean() == pytest.approx(0.05, abs=0.003)


def test_the_first_look_is_the_strictest() -> None:
    assert stopping_confidence(3, 10) > stopping_confidence(4, 10) == stopping_confidence(9, 10)
    assert stopping_confidence(4, 10) == pytest.approx(0.988, abs=1e-3)
    assert stopping_confidence(4, 6) == pytest.approx(0.9818, abs=1e-3)
