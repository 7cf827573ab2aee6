import numpy as np
import pytest

from hvdprof.analyze.predict.costs.gradient_trace import (
    Gradients,
    GradientTrace,
    NoTrace,
    assumed_ready,
    cycle_marks,
    gradient_trace,
    recorded_gradients,
)
from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.ingest.load_run import load_run_directory
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.declared_rows import declared_rows
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

TENSORS = {"allreduce.fc.weight": 4000, "allreduce.fc.bias": 40}
NUM_STEPS, NUM_WARMUP = 60, 2
PARTS = typical_parts(100.0, blocked_ms=20.0)
BACKWARD_BEGIN_MS = PARTS["data"] + PARTS["forward"]


def ready_times(num_ranks):
    """The weight is ready 10 ms after the bias, rank r another r ms later."""
    ready = np.zeros((num_ranks, NUM_STEPS + NUM_WARMUP, 2))
    ready[:, :, 0], ready[:, :, 1] = 20, 10
    return ready + BACKWARD_BEGIN_MS + np.arange(num_ranks)[:, None, None]


def traced(folder, *, hosts=None, offset_ms=0.0, num_ranks=2, **segment):
    given = {
        "parts_ms": PARTS,
        "tensors": TENSORS,
        "ready_ms": ready_times(num_ranks),
        "num_steps": NUM_STEPS,
        "num_warmup_batches": NUM_WARMUP,
    }
    spec = SegmentSpec(**given | segment)
    launched = PassSpec(size=num_ranks, segments=[spec], hosts=hosts, offset_ms=offset_ms)
    run = load_run_directory(write_run(folder, [launched]))
    key = (str(run.segments["pass_id"].iloc[0]), spec.id)
    works = step_work(run.steps, run.events, measured_launches(run).of_job)
    gradients = recorded_gradients(key, run.table("gradients"), run.table("tensor_uses"))
    return gradient_trace(key, works.get(key), run.arrivals, run.events, gradients)


@pytest.mark.heavy
def test_a_launch_says_when_each_gradient_is_ready_after_backward_begins(tmp_path):
    trace = traced(tmp_path)

    assert isinstance(trace, GradientTrace)
    assert trace.gradients.names == ("allreduce.fc.bias", "allreduce.fc.weight")
    assert trace.gradients.size_bytes.tolist() == [40, 4000]
    assert trace.ready.shape == (len(trace.steps), 2, 2)
    ready_ms = trace.ready.mean(axis=0) / 1e6
    assert ready_ms == pytest.approx(np.array([[10, 11], [20, 21]]), abs=1e-3)


@pytest.mark.heavy
def test_own_times_are_from_the_end_of_the_previous_step(tmp_path):
    trace = traced(tmp_path)

    assert isinstance(trace, GradientTrace)
    assert trace.backward_begin / 1e6 == pytest.approx(BACKWARD_BEGIN_MS, abs=1e-3)
    assert trace.forward / 1e6 == pytest.approx(PARTS["forward"], abs=1e-3)
    assert trace.step_times / 1e6 == pytest.approx(100.0, abs=1e-3)


@pytest.mark.heavy
def test_clocks_of_other_hosts_do_not_enter(tmp_path):
    here = traced(tmp_path / "here")
    apart = traced(tmp_path / "apart", hosts=["a", "b"], offset_ms=[0, 5_000.0])

    assert isinstance(here, GradientTrace)
    assert isinstance(apart, GradientTrace)
    assert apart.ready == pytest.approx(here.ready, abs=2)


@pytest.mark.heavy
def test_dtypes_are_those_of_a_timeline(tmp_path):
    trace = traced(tmp_path, timeline=True)

    assert isinstance(trace, GradientTrace)
    assert trace.gradients.dtypes == ("float32", "float32")


def test_the_sizes_are_known_where_one_rank_sends_nothing(tmp_path):
    trace = traced(tmp_path, num_ranks=1)

    assert isinstance(trace, GradientTrace)
    assert trace.gradients.size_bytes.sum() == 4040


@pytest.mark.heavy
def test_a_launch_without_gradients_says_so(tmp_path):
    missing = traced(tmp_path / "never", ready_ms=np.full((2, NUM_STEPS + NUM_WARMUP, 2), -1.0))
    assert missing == NoTrace("the ranks recorded no gradient")

    alone = traced(
        tmp_path / "alone", num_ranks=1, ready_ms=np.full((1, NUM_STEPS + NUM_WARMUP, 2), -1.0)
    )
    assert isinstance(alone, NoTrace)
    assert "on 1 rank" in alone.reason


def test_a_launch_whose_waits_are_unseen_says_so(tmp_path):
    trace = traced(tmp_path, seen_inside=False)

    assert isinstance(trace, NoTrace)
    assert "a wait may be unseen" in trace.reason


def test_fp16_halves_floats_and_leaves_half_precision():
    mixed = Gradients(("a", "b", "c"), np.array([400, 200, 80]), ("float32", "float16", "float64"))

    assert mixed.as_fp16().size_bytes.tolist() == [200, 200, 20]
    assert mixed.dtype_codes.tolist() == [1, 0, 2]


def test_gradients_of_a_model_need_no_run():
    gradients = Gradients.of_sizes([400, 100])

    assert gradients.size_bytes.sum() == 500
    assert gradients.dtype_codes.tolist() == [0, 0]
    assert assumed_ready([3, 1], 80.0).tolist() == [60.0, 80.0]


def test_marks_are_found_by_launch():
    rows = [
        {"pass_id": "a", "segment": "s", "activity": "CYCLE_START", "start_ns": 7},
        {"pass_id": "b", "segment": "s", "activity": "ALLREDUCE", "start_ns": 9},
        {"pass_id": "a", "segment": "s", "activity": "CYCLE_START", "start_ns": 5},
    ]

    marks = cycle_marks(declared_rows(EVENTS, *rows))

    assert {key: starts.tolist() for key, starts in marks.items()} == {("a", "s"): [5.0, 7.0]}
