"""Tests for hvdprof.analyze.tune.collective_draws."""

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.tune.collective_draws import WAKEUP_NS, CollectiveDraws, collective_draws
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.declared_rows import declared_rows

MS, MB = 1e6, 1e6
NUM_DRAWS = 200


def executions(sizes, times_ms, *, lags_ms=None) -> pd.DataFrame:
    """One collective per step."""
    lags = np.zeros(len(sizes)) if lags_ms is None else np.asarray(lags_ms)
    rows = [
        {
            "pass_id": "p",
            "segment": "s",
            "step": step,
            "size_bytes": int(size),
            "dur_ns": int(time * MS),
            "lag_ns": int(lag * MS),
        }
        for step, (size, time, lag) in enumerate(zip(sizes, times_ms, lags, strict=True))
    ]
    return declared_rows(COLLECTIVES, *rows)


def draws(table, cycle_ms=1.0) -> CollectiveDraws:
    found = collective_draws(table, cycle_ms * MS, NUM_DRAWS, np.random.default_rng(0))
    assert isinstance(found, CollectiveDraws)
    return found


def test_the_fit_finds_latency_and_bandwidth() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.choice([0.01 * MB, 0.1 * MB, MB, 10 * MB], 80)
    found = draws(executions(sizes, (0.5 + 2 * sizes / MB) * rng.normal(1, 0.05, 80)))
    low, high = np.quantile(found.alpha_ns, [0.05, 0.95]) / MS
    assert low <= 0.5 <= high
    assert high - low < 0.1
    low, high = np.quantile(found.beta_ns_per_byte, [0.05, 0.95])
    assert low <= 2.0 <= high
    assert high - low < 0.3


def test_stalled_transfers_are_residuals_and_not_part_of_the_fit() -> None:
    sizes = np.tile([0.01 * MB, 0.1 * MB, MB, 10 * MB], 20)
    times = 0.5 + 2 * sizes / MB
    times[::10] += 100
    found = draws(executions(sizes, times))
    assert np.median(found.beta_ns_per_byte) == pytest.approx(2.0, rel=0.15)
    assert found.residuals_ns.max() > 90 * MS
    mean = np.mean([found.cost_ns(np.full(NUM_DRAWS, MB), found_rng()) for _ in range(50)])
    assert mean / MS == pytest.approx(2.5 + 10, rel=0.3)


def found_rng() -> np.random.Generator:
    return np.random.default_rng()


def test_one_payload_leaves_the_division_open() -> None:
    found = draws(executions([MB] * 20, [4.0] * 20))
    at_hand = found.cost_ns(np.full(NUM_DRAWS, MB), np.random.default_rng(2))
    assert at_hand == pytest.approx(4 * MS)
    small = found.cost_ns(np.full(NUM_DRAWS, 0.01 * MB), np.random.default_rng(2)) / MS
    assert np.quantile(small, 0.05) < 0.2
    assert np.quantile(small, 0.95) > 2.0


def test_few_executions_say_nothing() -> None:
    found = collective_draws(executions([MB] * 9, [4.0] * 9), MS, 10, np.random.default_rng(0))
    assert found == "a timeline holds 9 of its collectives; 10 are needed"


def test_waits_for_the_first_collective_give_negotiation_and_wakeups() -> None:
    rng = np.random.default_rng(3)
    # A cycle of 1 ms that ends 0.5 ms late, and a negotiation of 2 ms.
    lags = 2.0 + rng.uniform(0, 1.5, 400)
    found = draws(executions([MB] * 400, [4.0] * 400, lags_ms=lags))
    assert np.median(found.negotiation_ns) / MS == pytest.approx(2.0, abs=0.1)
    loop = found.in_a_step(LoopSettings(), np.random.default_rng(4))
    mean_wait = (
        np.asarray(loop.negotiation_ns).mean() + (loop.cycle_ns + found.wakeups_ns.mean()) / 2
    )
    assert mean_wait / MS == pytest.approx(lags.mean(), abs=0.2)


def test_waits_for_long_cycles_say_nothing_of_negotiation() -> None:
    found = draws(executions([MB] * 20, [4.0] * 20, lags_ms=[35.0] * 20), cycle_ms=50)
    assert found.negotiation_ns.max() <= 1.5 * 4 * MS
    assert found.wakeups_ns.max() <= WAKEUP_NS


def test_a_scale_multiplies_all_times() -> None:
    one = CollectiveDraws(*(np.full(3, MS),) * 5)
    half = CollectiveDraws(*(np.full(3, MS),) * 5, scale=np.array([0.5, 1.0, 2.0]))
    size, rng = np.zeros(3), np.random.default_rng(0)
    assert half.cost_ns(size, rng) == pytest.approx([0.5, 1, 2] * one.cost_ns(size, rng))
    loop = half.in_a_step(LoopSettings(), rng)
    assert np.asarray(loop.negotiation_ns) == pytest.approx(np.array([0.5, 1, 2]) * MS)
