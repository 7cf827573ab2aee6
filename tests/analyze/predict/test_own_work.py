import math
from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.own_work import (
    UNREPEATED_ERROR,
    draw_own_work,
    own_work,
)
from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.measured_launches import LaunchFacts
from tests.builders.predicted_jobs import stated_job
from tests.builders.step_works import PARTS_MS, simulated

MS = 1e6
KEYS = {1: ("p1", "s"), 4: ("p4", "s")}


def _time(num_ranks: int, step_ms: float) -> CellTime:
    cell = Cell("m", num_ranks, "horovod", "none", "average", 8, "throughput")
    estimate = LogEstimate(math.log(step_ms * MS), 0.01, 4)
    return CellTime(cell, (KEYS[num_ranks],), estimate, 100, False, False)


def _facts(step_ms: float, **parts_ms: float) -> LaunchFacts:
    parts = dict.fromkeys(("blocked", "outside"), 0.0) | parts_ms
    step = np.full(10, step_ms * MS).astype(np.int64)
    return LaunchFacts(step, {name: time * MS for name, time in parts.items()}, 8, (8, 8))


def test_a_step_splits_into_window_slowest_rank_and_exposed_time() -> None:
    work = simulated(200, 4, noise=0.02, tail_ms=5.0)
    step_ms = float(work.step_times.mean()) / MS
    slow = PARTS_MS | {"backward": 1.1 * PARTS_MS["backward"]}
    facts = {KEYS[1]: _facts(95, **PARTS_MS), KEYS[4]: _facts(step_ms, **slow)}

    found = own_work(
        _time(4, step_ms),
        _time(1, 95),
        LogEstimate(math.log(step_ms / 95), 0.01, 4),
        facts,
        {KEYS[4]: work},
    )

    assert found is not None
    reference = found.reference
    assert reference.window_ns == pytest.approx(95 * MS, rel=0.01)
    assert reference.exposed_ns == pytest.approx(5 * MS, rel=0.02)
    slowest = reference.step_ns - reference.window_ns - reference.exposed_ns
    # Two phases of 30 and 60 ms vary by 2 % each; 1.03 is the largest of four normal values.
    assert slowest == pytest.approx(1.03 * 1.34 * MS, rel=0.15)
    assert found.slowdown == pytest.approx(6 / 90)
    assert found.baseline.window_ns == pytest.approx(95 * MS)


def test_a_named_straggler_is_no_own_work() -> None:
    extra = {"backward": np.array([0.0, 0.0, 0.0, 40.0]) * np.ones((200, 1))}
    work = simulated(200, 4, extra_ms=extra, noise=0.0, tail_ms=5.0)
    slow = PARTS_MS | {"backward": PARTS_MS["backward"] + 10}
    facts = {KEYS[1]: _facts(95, **PARTS_MS), KEYS[4]: _facts(140, **slow)}
    ratio = LogEstimate(math.log(140 / 95), 0.01, 4)

    found = own_work(_time(4, 140), _time(1, 95), ratio, facts, {KEYS[4]: work}, late={3})

    assert found is not None
    assert found.reference.window_ns == pytest.approx(95 * MS)
    assert found.reference.compute_ns == pytest.approx(90 * MS)
    assert found.reference.outside_ns == pytest.approx(0, abs=1)
    assert found.reference.exposed_ns == pytest.approx(5 * MS)
    assert found.slowdown == pytest.approx(0)


def test_ranks_that_were_not_recorded_have_no_own_work() -> None:
    facts = {key: _facts(95, **PARTS_MS) for key in KEYS.values()}

    ratio = LogEstimate(0.0, 0.01, 4)

    assert own_work(_time(4, 95), _time(1, 95), ratio, facts, {}) is None


def test_draws_are_as_wide_as_the_measured_times() -> None:
    own = stated_job(error=0.01).own

    found = draw_own_work(own, np.random.default_rng(0), 20_000)

    # Student's t of 10 degrees of freedom is wider than a normal distribution by sqrt(10 / 8),
    # less what lies beyond its 99 % quantile.
    assert np.log(found.baseline_ns).std() == pytest.approx(0.01 * math.sqrt(10 / 8), rel=0.08)
    ratio = np.log(found.reference_ns / found.baseline_ns)
    assert ratio.mean() == pytest.approx(own.log_ratio.value, abs=1e-3)


def test_launches_without_repeats_have_an_assumed_error() -> None:
    job = stated_job()
    own = type(job.own)(
        reference=job.own.reference,
        baseline=job.own.baseline,
        log_step=LogEstimate(job.own.log_step.value, NAN, 0.0),
        log_ratio=job.own.log_ratio,
        slowdown=0.0,
    )

    found = draw_own_work(own, np.random.default_rng(0), 20_000)

    reach = np.quantile(np.log(found.baseline_ns), 0.95) - job.own.log_step.value
    # Student's t of 3 degrees of freedom.
    assert reach == pytest.approx(2.353 * UNREPEATED_ERROR, rel=0.05)


def test_one_degree_of_freedom_leaves_the_means_finite() -> None:
    job = stated_job()
    own = replace(job.own, log_step=LogEstimate(math.log(100 * MS), 0.5, 1.0))

    found = draw_own_work(own, np.random.default_rng(0), 20_000)

    assert 100 * MS / 3.01 < found.baseline_ns.min() < found.baseline_ns.max() < 301 * MS


def test_draws_keep_the_quantiles_of_a_measured_error() -> None:
    own = stated_job(error=0.01).own

    found = np.log(draw_own_work(own, np.random.default_rng(0), 20_000).baseline_ns)

    # 1.812 is the 95 % quantile of Student's t with 10 degrees of freedom.
    assert np.quantile(found, 0.95) - own.log_step.value == pytest.approx(0.01812, rel=0.05)
