"""Tests for hvdprof.analyze.tune.launch_replay: step times that can be computed by hand."""

import dataclasses

import numpy as np
import pytest

from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.tune.launch_replay import BucketSettings
from tests.builders.replayed_jobs import MS, known_launch, known_trace

OWN_MS = 13.0
NO_CYCLE = LoopSettings(cycle_ns=0.0, fusion_bytes=0)


def step_ms(launch, settings):
    return float(launch.step_ns(settings).mean()) / MS


def test_without_a_cycle_the_last_gradient_is_reduced_alone() -> None:
    # Each of four gradients takes 1 ms and is ready 2 ms after the one before it.
    launch = known_launch(alpha_ms=1.0, ms_per_mb=0.0)
    assert step_ms(launch, NO_CYCLE) == pytest.approx(OWN_MS + 1.0, rel=1e-3)


def test_collectives_that_take_longer_than_backward_queue_up() -> None:
    launch = known_launch(alpha_ms=5.0, ms_per_mb=0.0)
    # The first is ready 2 ms into backward, the fourth ends 20 ms later.
    assert step_ms(launch, NO_CYCLE) == pytest.approx(4 + 2 + 20 + 1, rel=1e-3)


def test_fusion_saves_latency() -> None:
    launch = known_launch(known_trace(backward_ms=0.0), alpha_ms=5.0, ms_per_mb=0.0)
    alone = step_ms(launch, LoopSettings(cycle_ns=1e3, fusion_bytes=0))
    fused = step_ms(launch, LoopSettings(cycle_ns=1e3))
    assert alone - fused == pytest.approx(15.0, abs=0.01)


def test_long_cycles_and_steps_move_in_step() -> None:
    launch = known_launch(alpha_ms=1.0, ms_per_mb=0.0)
    # A step of 14 ms and a cycle of 50 ms: the gradients of every step wait for the next cycle.
    assert step_ms(launch, LoopSettings(cycle_ns=50 * MS)) == pytest.approx(50, rel=0.06)


def test_the_slowest_rank_decides() -> None:
    trace = known_trace()
    late = trace.arrived.copy()
    late[:, 1] += 6 * MS
    ready = np.array(trace.ready)
    ready[:, :, 1] += 6 * MS
    launch = known_launch(
        dataclasses.replace(trace, arrived=late, ready=ready), alpha_ms=1.0, ms_per_mb=0.0
    )
    assert step_ms(launch, NO_CYCLE) == pytest.approx(OWN_MS + 6 + 1, rel=1e-3)


def test_two_replays_differ_by_their_settings_alone() -> None:
    launch = known_launch(residuals_ms=(-0.5, 0.0, 2.0), wakeup_ms=1.0)
    settings = LoopSettings()
    assert np.array_equal(launch.step_ns(settings), launch.step_ns(settings))


def test_other_gradients_are_sent() -> None:
    launch = known_launch(known_trace(backward_ms=0.0), alpha_ms=0.0, ms_per_mb=2.0)
    whole = step_ms(launch, NO_CYCLE)
    half = float(launch.step_ns(NO_CYCLE, launch.trace.gradients.as_fp16()).mean()) / MS
    assert whole - half == pytest.approx(4.0, abs=0.01)


def test_own_work_is_that_of_the_slowest_rank() -> None:
    assert known_launch().without_communication_ns() == pytest.approx(OWN_MS * MS)


# ---- calibration


@pytest.mark.heavy
def test_communication_is_scaled_towards_the_measured_step() -> None:
    # Four gradients in backward's end: 5 + 4 * 1 ms beyond own work, half of it was measured.
    trace = known_trace(backward_ms=0.0, step_ms=5.0 + 4.5)
    launch = known_launch(trace, alpha_ms=2.25, ms_per_mb=0.0)
    found = launch.calibrated(NO_CYCLE)
    scales = np.asarray(found.draws.scale)
    assert scales.min() == pytest.approx(0.5, abs=0.05)
    assert scales.max() == pytest.approx(1.0, abs=0.05)
    assert step_ms(found, NO_CYCLE) < step_ms(launch, NO_CYCLE)


def test_a_step_that_no_factor_explains_leaves_communication_as_it_is() -> None:
    launch = known_launch(known_trace(step_ms=500.0), alpha_ms=1.0)
    assert launch.calibrated(NO_CYCLE) is launch


# ---- buckets of DDP


def test_one_bucket_starts_when_all_gradients_are_ready() -> None:
    launch = known_launch(alpha_ms=1.0, ms_per_mb=1.0)
    # Four gradients of 1 MB in one bucket: 1 + 4 ms behind backward.
    assert step_ms(launch, BucketSettings(100)) == pytest.approx(OWN_MS + 5.0, rel=1e-3)


def test_small_buckets_run_under_backward() -> None:
    launch = known_launch(alpha_ms=0.5, ms_per_mb=1.0)
    # A bucket of 1.5 ms for each gradient, and one is ready every 2 ms.
    assert step_ms(launch, BucketSettings(0.5)) == pytest.approx(OWN_MS + 1.5, rel=1e-3)


def test_the_order_of_gradients_decides_which_of_them_share_a_bucket() -> None:
    launch = known_launch(alpha_ms=0.5, ms_per_mb=1.0)
    names = launch.trace.gradients.names
    # Reversed, the first bucket of two waits for the last gradient, the second one for it.
    reverse = BucketSettings(1.5, names[::-1])
    assert step_ms(launch, BucketSettings(1.5)) == pytest.approx(OWN_MS + 2.5, rel=1e-3)
    assert step_ms(launch, reverse) == pytest.approx(OWN_MS + 5.0, rel=1e-3)
