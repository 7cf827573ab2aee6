import numpy as np
import pytest

from hvdprof.analyze.stats.steady_state import SteadyWindow, drift_of, steady_window
from tests.builders.analysis import autoregressive


def test_a_slow_start_is_cut() -> None:
    rng = np.random.default_rng(1)
    times = 100 + rng.normal(size=100)
    times[:15] += np.linspace(60, 20, 15)
    window = steady_window(times)
    assert 15 <= window.num_cut <= 20
    assert window.found


def test_a_start_that_is_too_fast_is_cut_too() -> None:
    times = np.concatenate((np.full(10, 50.0), np.full(41, 100.0) + np.arange(41) % 3))
    assert steady_window(times).num_cut == 11


def test_steps_that_become_slower_later_all_count() -> None:
    rng = np.random.default_rng(5)
    times = np.concatenate((np.full(30, 100.0), np.full(30, 140.0))) + rng.normal(size=60)
    window = steady_window(times)
    assert window.num_cut == 0
    assert not window.found


@pytest.mark.parametrize(("slower", "num_cut"), [(0.03, 0), (0.1, 25)])
def test_a_slightly_slower_first_half_is_no_warm_up(slower: float, num_cut: int) -> None:
    times = np.full(50, 70.0) + np.random.default_rng(4).normal(size=50)
    times[:25] *= 1 + slower
    times[[9, 24, 39]] += 360.0
    window = steady_window(times)
    assert (window.num_cut, window.found) == (num_cut, False)


def test_a_warm_up_longer_than_half_is_no_steady_state() -> None:
    rng = np.random.default_rng(2)
    times = np.linspace(200, 100, 60) + rng.normal(size=60)
    window = steady_window(times)
    assert window.num_cut == 30
    assert not window.found


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_steady_steps_are_hardly_ever_cut(correlation: float) -> None:
    rng = np.random.default_rng(3)
    windows = [steady_window(100 + 5 * autoregressive(rng, 100, correlation)) for _ in range(300)]
    assert np.mean([window.num_cut for window in windows]) < 2
    assert sum(not window.found for window in windows) <= 6


@pytest.mark.parametrize("num", [0, 1, 5, 19])
def test_few_steps_are_left_alone(num: int) -> None:
    assert steady_window(np.linspace(1, 2, num)).num_cut == 0


def test_equal_steps_are_steady() -> None:
    assert steady_window(np.full(50, 7.0)).num_cut == 0


def test_drift_is_the_change_from_first_to_last_by_the_mean() -> None:
    drift = drift_of(np.linspace(90, 110, 201))
    assert drift.change == pytest.approx(0.2, rel=0.01)
    assert drift.error < 1e-6


def test_a_wave_is_not_taken_for_drift() -> None:
    rng = np.random.default_rng(4)
    clear = [
        abs(drift.change) > 3 * drift.error
        for drift in (drift_of(100 + 5 * autoregressive(rng, 200, 0.6)) for _ in range(300))
    ]
    assert sum(clear) <= 6


def test_drift_of_few_steps_is_unknown() -> None:
    assert np.isnan(drift_of(np.arange(9.0)).change)


@pytest.mark.parametrize("every", [5, 10, 20])
@pytest.mark.parametrize("begin", [2, 7, 19])
def test_a_job_that_pauses_every_few_steps_has_all_its_steps(every: int, begin: int) -> None:
    times = np.random.default_rng(every).normal(100.0, 2.0, 60)
    times[begin::every] += 500.0
    assert steady_window(times) == SteadyWindow(0, True)


def test_a_warm_up_before_pauses_is_cut_still() -> None:
    times = np.random.default_rng(3).normal(100.0, 2.0, 60)
    times[:8] += 300.0
    times[19::20] += 500.0
    assert steady_window(times) == SteadyWindow(10, True)


def test_a_slow_phase_is_no_pause() -> None:
    times = np.random.default_rng(4).normal(100.0, 2.0, 60)
    times[1:16] += 60.0
    assert steady_window(times).num_cut > 10
