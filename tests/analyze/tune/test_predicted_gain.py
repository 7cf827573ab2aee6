"""Gains of replayed launches, held against what the same loop takes with the changed setting."""

import dataclasses
import math

import numpy as np
import pytest

from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.tune.candidates import proposals
from hvdprof.analyze.tune.predicted_gain import MODEL_ERROR, Replays, job_replays, with_predictions
from hvdprof.analyze.tune.tuned_job import Means, TunedJob, tuned_job
from hvdprof.model.results.tuning import Candidate, Estimate
from tests.builders.analysis import analysis_of
from tests.builders.replayed_jobs import MS, known_launch, known_trace
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.tuned_jobs import MB, job

CYCLE, FUSION = "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD"


def replays(launch, present) -> Replays:
    return Replays((launch,), present, 2, (launch.step_ns(present),))


def step_ns(launch, settings) -> float:
    return float(launch.step_ns(settings).mean())


def assert_nothing(gain: Estimate | None) -> None:
    """No gain, known as well as a replay knows any."""
    assert gain is not None
    assert abs(gain.value) < MODEL_ERROR
    assert gain.low < 0 < gain.high
    assert gain.high - gain.low < 4 * MODEL_ERROR


# ---- the gain of a changed setting


def test_a_gain_is_the_difference_of_two_replays() -> None:
    launch = known_launch(known_trace(step_ms=50.0), alpha_ms=1.0, ms_per_mb=0.0)
    long, short = LoopSettings(cycle_ns=50 * MS), LoopSettings()
    found = replays(launch, long).gain(lambda one: one.step_ns(short))
    true = 1 - step_ns(launch, short) / step_ns(launch, long)
    assert true > 0.6
    assert found.low <= true <= found.high
    assert found.value == pytest.approx(true, abs=0.03)


def test_what_the_replay_misses_widens_the_interval() -> None:
    present, changed = LoopSettings(cycle_ns=50 * MS), LoopSettings()
    widths = []
    for step_ms in (50.0, 100.0):
        launch = known_launch(known_trace(step_ms=step_ms), alpha_ms=1.0, ms_per_mb=0.0)
        found = replays(launch, present).gain(lambda one: one.step_ns(changed))
        widths.append(found.high - found.low)
    assert widths[1] > widths[0] + 0.2


def test_an_unchanged_setting_gains_nothing() -> None:
    launch = known_launch(known_trace(step_ms=17.0), residuals_ms=(-0.5, 0.0, 1.0))
    found = replays(launch, LoopSettings()).gain(lambda one: one.step_ns(LoopSettings()))
    assert_nothing(found)


def test_the_error_of_the_present_setting_is_known() -> None:
    launch = known_launch(known_trace(step_ms=28.0), alpha_ms=1.0, ms_per_mb=0.0)
    present = LoopSettings(cycle_ns=0.0, fusion_bytes=0)
    assert replays(launch, present).error == pytest.approx(14 / 28 - 1, abs=0.01)


# ---- a whole run

OWN_MS, NUM_STEPS = 10.0, 40
TENSORS = {f"allreduce.{number}": 40_000 for number in range(5)}


def recorded_job(folder, *, blocked_ms, environment, executing_ms=2.0) -> TunedJob:
    """Steps of 10 ms of own work; a collective takes ``executing_ms`` in the traced launch."""

    def launched(mode, waits_ms, **values):
        parts = typical_parts(OWN_MS + waits_ms, waits_ms)
        spec = SegmentSpec(
            parts_ms=parts, tensors=TENSORS, num_steps=NUM_STEPS, timeline=mode == "trace"
        )
        return PassSpec(size=2, mode=mode, segments=[spec], **values)

    passes = [
        *(launched("throughput", blocked_ms, repeat=repeat) for repeat in (1, 2)),
        launched("trace", executing_ms),
    ]
    found = analysis_of(
        folder, passes, environment=environment, settings={"script": {"command": ["train.py"]}}
    )
    return tuned_job(found, Means(), margin=0.02)


@pytest.fixture(scope="module")
def long_cycle(tmp_path_factory) -> TunedJob:
    """A cycle of 50 ms, to which every step waits."""
    return recorded_job(
        tmp_path_factory.mktemp("runs") / "long", blocked_ms=40.0, environment={CYCLE: "50"}
    )


def predicted(given, name) -> Candidate:
    every = with_predictions(given, proposals(given).candidates)
    return next(one for one in every if one.name == name)


@pytest.mark.slow
def test_the_gain_of_a_default_cycle_is_predicted(long_cycle) -> None:
    found = predicted(long_cycle, f"{CYCLE}=1")
    assert found.not_predicted == ""
    assert found.predicted is not None
    # 10 ms of own work, 2 ms of collectives and at most a cycle, instead of 50 ms.
    assert found.predicted.low > 0.6
    assert found.predicted.high < 1 - OWN_MS / (OWN_MS + 40.0)


@pytest.mark.heavy
def test_the_replay_of_the_present_setting_is_the_measured_step(long_cycle) -> None:
    found = job_replays(long_cycle)
    assert isinstance(found, Replays)
    assert len(found.launches) == 2
    assert abs(found.error) < 0.06


@pytest.mark.slow
def test_the_same_seed_predicts_the_same(long_cycle) -> None:
    assert predicted(long_cycle, f"{CYCLE}=1") == predicted(long_cycle, f"{CYCLE}=1")


@pytest.mark.heavy
def test_pieces_of_a_buffer_that_holds_all_gain_nothing_by_replay(long_cycle) -> None:
    same = Candidate(name="same", environment={FUSION: str(64 * MB)})
    (found,) = with_predictions(long_cycle, [same])
    assert_nothing(found.predicted)


@pytest.mark.heavy
def test_options_of_bench_have_the_same_prediction_as_variables(long_cycle) -> None:
    pairs = (
        (CYCLE, "1", "cycle_time_ms", 1),
        (FUSION, str(MB // 16), "fusion_threshold_mb", 1 / 16),
    )
    for variable, text, option, value in pairs:
        given = [
            Candidate(name="variable", environment={variable: text}),
            Candidate(name="option", options={option: value}),
        ]
        first, second = with_predictions(long_cycle, given)
        assert first.predicted is not None
        assert first.predicted == second.predicted


@pytest.mark.heavy
def test_accumulation_saves_all_waits_but_one(long_cycle) -> None:
    twice = Candidate(name="2", arguments=("--batches-per-allreduce", "2"))
    (found,) = with_predictions(long_cycle, [twice])
    assert found.predicted is not None
    # Two passes of 10 ms of own work and one wait of 40 ms, instead of two of both.
    assert found.predicted.value == pytest.approx(0.4, abs=0.04)


@pytest.mark.slow
def test_a_run_without_a_timeline_says_so(tmp_path) -> None:
    given = recorded_job(tmp_path / "run", blocked_ms=40.0, environment={CYCLE: "50"})
    tables = dict(given.evidence.tables)
    tables["collectives"] = tables["collectives"].iloc[:0]
    blind = dataclasses.replace(given, evidence=dataclasses.replace(given.evidence, tables=tables))
    found = predicted(blind, f"{CYCLE}=1")
    assert found.predicted is None
    assert found.not_predicted == (
        "There is nothing to replay: a timeline holds 0 of its collectives; 10 are needed."
    )


# ---- what no replay says


@pytest.mark.parametrize(
    ("given", "name", "reason"),
    [
        (
            job(environment={"OMP_NUM_THREADS": "8"}, threads=8),
            "OMP_NUM_THREADS=2",
            "A replay repeats the computation as it was measured.",
        ),
        (job(), "controller gloo", "At most 11.3 %: communication."),
        (job(num_tensors=2000), "HOROVOD_CACHE_CAPACITY=4096", "At most 30.0 %: negotiation"),
        (job(cuda=True), f"{CYCLE}=0.1", "The replay is one of Horovod on CPUs."),
        (
            job(engine="ddp", bench=True, sent_bytes=46 * MB),
            "bucket_cap_mb=5",
            "There is nothing to replay: no launch with a trace measured an allreduce",
        ),
    ],
)
def test_without_a_replay_the_reason_or_a_bound_is_given(given, name, reason) -> None:
    found = predicted(given, name)
    assert found.predicted is None
    assert found.not_predicted.startswith(reason)


@pytest.mark.heavy
def test_every_rule_is_known_to_the_replay() -> None:
    everything = {
        CYCLE: "50",
        FUSION: "0",
        "HOROVOD_CACHE_CAPACITY": "0",
        "OMP_NUM_THREADS": "8",
        "OMP_WAIT_POLICY": "active",
        "HOROVOD_THREAD_AFFINITY": "0,1",
        "HOROVOD_DISABLE_GROUP_FUSION": "1",
        "NCCL_P2P_DISABLE": "1",
    }
    text = "'--fp16-allreduce' '--backward-passes-per-step'"
    hosts = ("node1", "node1", "node2", "node2")
    for given in (
        job(environment=everything, threads=8, hosts=hosts, text=text),
        job(environment=everything, cuda=True, hosts=hosts, text=text),
        job(environment=everything, bench=True, threads=8, options={"hosts": "h1:4,h2:4"}),
    ):
        for one in with_predictions(given, proposals(given).candidates):
            assert (one.predicted is None) == bool(one.not_predicted)
            assert one.predicted is not None or one.not_predicted.endswith(".")


@pytest.mark.heavy
def test_predictions_are_finite(long_cycle) -> None:
    for one in with_predictions(long_cycle, proposals(long_cycle).candidates):
        if one.predicted is not None:
            ends = (one.predicted.low, one.predicted.value, one.predicted.high)
            assert all(map(math.isfinite, ends))
            assert list(ends) == sorted(ends)
            assert np.max(ends) <= 1
