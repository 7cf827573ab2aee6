"""What a replay of DDP knows of its buckets and of allreduces, and the gain that it predicts."""

from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.tune.candidates import proposals
from hvdprof.analyze.tune.ddp_costs import bucket_draws, present_buckets
from hvdprof.analyze.tune.launch_replay import BucketSettings
from hvdprof.analyze.tune.predicted_gain import Replays, job_replays, with_predictions
from hvdprof.analyze.tune.tuned_job import Means, TunedJob, tuned_job
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.analysis import analysis_of
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
OWN_MS = 10.0


def recorded_job(folder, blocked_ms, compressed=False, **values) -> TunedJob:
    spec = SegmentSpec(
        engine="ddp",
        parts_ms=typical_parts(OWN_MS + blocked_ms, blocked_ms),
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
    assert found.predicted.value == pytest.approx(0.8 / (OWN_MS + 1.8), abs=0.01)
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
