import numpy as np
import pytest

from benchmarks.forecast_simulated import SIZES, coverage, outcomes
from benchmarks.simulated_jobs import random_job, random_speeds, simulate


@pytest.mark.heavy
def test_bands_hold_the_truth_of_simulated_jobs() -> None:
    found = outcomes(3, seed=3)

    assert [one.num_ranks for one in found[:3]] == list(SIZES)
    _, whole = coverage(found)
    # 9 correlated outcomes; 1,000 jobs are in docs/explain/accuracy.md.
    assert whole >= 0.6
    assert np.median([abs(one.median / one.truth - 1) for one in found]) < 0.05


@pytest.mark.parametrize("num_ranks", [1, 4])
def test_a_simulated_step_is_at_least_its_slowest_rank(num_ranks: int) -> None:
    rng = np.random.default_rng(0)
    job = random_job(rng)

    found = simulate(job, num_ranks, 20, rng)

    slowest = found.window.max(axis=1)
    assert (found.step_ns >= slowest - 1e-3).all()
    if num_ranks == 1:
        assert found.step_ns == pytest.approx(slowest)
    assert len(found.sizes) == len(found.costs)
    total = 20 * job.size_bytes.sum() * (num_ranks > 1)
    assert found.sizes.sum() == pytest.approx(total)


def test_the_same_ranks_have_the_same_speeds() -> None:
    rng = np.random.default_rng(0)
    job = random_job(rng)
    speeds = random_speeds(job, 4, rng) * np.array([1.0, 1.0, 1.0, 1.5])

    first, second = (simulate(job, 4, 40, rng, speeds=speeds) for _ in range(2))

    assert first.window.mean(axis=0).argmax() == 3
    assert second.window.mean(axis=0).argmax() == 3
