"""Tests for hvdprof.analyze.tune.launch_replay: step times that can be computed by hand."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.tune.candidates import proposals
from hvdprof.analyze.tune.launch_replay import BucketSettings, bucket_draws, present_buckets
from hvdprof.analyze.tune.predicted_gain import Replays, job_replays, with_predictions
from hvdprof.analyze.tune.tuned_job import Means, TunedJob, tuned_job
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.analysis import analysis_of
from tests.builders.replayed_jobs import MS, known_launch, known_trace
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.tuned_jobs import MB, NAMES, job, table

ALPHA_NS, NS_PER_BYTE = 1_000_000, 0.1
ALLREDUCES = [
    (size, round(ALPHA_NS + NS_PER_BYTE * size)) for size in (2**10, 2**14, 2**20) for _ in range(6)
]


def facts(**values) -> DdpFacts:
    return DdpFacts(**({"gradient_bytes": MB, "allreduces": ALLREDUCES} | values))


def draws(given):
    return bucket_draws(given, 50, np.random.default_rng(0))


# ---- costs


def test_costs_are_those_of_the_measured_allreduces() -> None:
    found = draws(job(engine="ddp", ddp=facts()))
    assert found.alpha_ns == pytest.approx(ALPHA_NS, rel=0.01)
    assert found.beta_ns_per_byte == pytest.approx(NS_PER_BYTE, rel=0.01)
    assert found.residuals_ns == pytest.approx(0, abs=ALPHA_NS / 100)


def test_buckets_of_reference_models_cost_what_they_add_to_those_before_them() -> None:
    """Three buckets of 1 ms each, submitted together: the last one is in progress for 3 ms."""
    rows = [
        NAMES
        | {"step": step, "size_bytes": MB, "start_ns": step * 10**8, "dur_ns": number * 1_000_000}
        for step in range(5)
        for number in (1, 2, 3)
    ]
    given = job(engine="ddp", bench=True)
    given.__dict__["collectives"] = table("collectives", *rows)
    found = draws(given)
    fitted = found.alpha_ns + found.beta_ns_per_byte * MB
    assert fitted == pytest.approx(1e6, rel=1e-6)
    assert found.residuals_ns == pytest.approx(0, abs=1)


def test_without_a_measured_allreduce_there_is_a_reason() -> None:
    given = job(engine="ddp", ddp=facts(allreduces=[]), sizes=[])
    assert draws(given) == "no launch with a trace measured an allreduce of its ranks"


# ---- buckets


def test_the_present_buckets_are_those_that_the_script_asks_for() -> None:
    assert present_buckets(job(engine="ddp", ddp=facts())) == BucketSettings(None)
    assert present_buckets(job(engine="ddp", ddp=facts(bucket_cap_mb=5.0))) == BucketSettings(5.0)
    assert present_buckets(job(engine="ddp")) == (
        "How the script calls DistributedDataParallel is unknown."
    )


# ---- a whole run: 10 ms of own work, and six gradients in a bucket each

TENSORS = {f"layer.{number}": 100_000 for number in range(6)}
DDP_OWN_MS = 10.0


def recorded_job(folder, blocked_ms, compressed=False, **values) -> TunedJob:
    spec = SegmentSpec(
        engine="ddp",
        parts_ms=typical_parts(DDP_OWN_MS + blocked_ms, blocked_ms),
        tensors=TENSORS,
        num_steps=40,
        compression="fp16" if compressed else "none",
    )
    passes = [
        PassSpec(size=2, mode="throughput", segments=[spec], repeat=repeat) for repeat in (1, 2)
    ]
    found = analysis_of(folder, passes, settings={"script": {"command": ["train.py"]}})
    with_facts = replace(found, run=replace(found.run, ddp=facts(**values)))
    return tuned_job(with_facts, Means(), margin=0.02)


@pytest.fixture(scope="module")
def tiny_buckets(tmp_path_factory) -> TunedJob:
    """Six allreduces of 1 ms, and a gradient every 0.8 ms: they end 1.8 ms after backward."""
    return recorded_job(tmp_path_factory.mktemp("ddp") / "tiny", 1.8, bucket_cap_mb=0.001)


def predicted(given, name):
    every = with_predictions(given, proposals(given).candidates)
    return next(one for one in every if one.name == name)


@pytest.mark.heavy
def test_the_replay_of_the_present_buckets_is_the_measured_step(tiny_buckets) -> None:
    found = job_replays(tiny_buckets)
    assert isinstance(found, Replays)
    assert abs(found.error) < 0.05


@pytest.mark.heavy
def test_the_gain_of_ddps_own_buckets_is_predicted(tiny_buckets) -> None:
    found = predicted(tiny_buckets, "bucket_cap_mb=default")
    assert found.not_predicted == ""
    assert found.predicted is not None
    # One allreduce behind backward instead of what six leave there.
    assert found.predicted.value == pytest.approx(0.8 / (DDP_OWN_MS + 1.8), abs=0.01)
    assert found.predicted.low > 0.04


@pytest.mark.heavy
def test_an_unchanged_size_gains_nothing(tiny_buckets) -> None:
    replays = job_replays(tiny_buckets)
    same = replays.gain(lambda launch: launch.step_ns(BucketSettings(0.001)))
    assert abs(same.value) < 0.005


@pytest.mark.heavy
def test_other_arguments_are_not_predicted(tiny_buckets) -> None:
    found = predicted(tiny_buckets, "static_graph=True")
    assert found.predicted is None
    assert found.not_predicted == (
        "It changes forward and backward too. A replay repeats the computation as it was measured."
    )


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
