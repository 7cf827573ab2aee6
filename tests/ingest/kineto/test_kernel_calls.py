"""Gloo on tensors of a GPU: written calls, and traces of two ranks that shared an H200."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.kernel_calls import StreamWait, copied_calls
from hvdprof.ingest.kineto.trace_file import read_trace_file
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.run import RunAnalysis
from tests.builders.places import RECORDINGS

H200 = RECORDINGS / "h200"
TRACES = [H200 / f"gloo_ddp_rank{rank}.json.gz" for rank in (0, 1)]
NUM_STEPS, CALLS_OF_A_STEP = 3, 4
"""A step has two buckets of gradients, and broadcasts the buffers of batch norms twice."""


@pytest.fixture(scope="module")
def analysis() -> RunAnalysis:
    return analyze_run(load_run(TRACES))


def test_a_call_starts_when_its_tensor_is_on_the_host() -> None:
    call = CollectiveCall("ALLREDUCE", "gloo:all_reduce", start_ns=100, end_ns=900)
    waits = [
        StreamWait(7, 50, 99),  # that of the call before
        StreamWait(7, 110, 600),
        StreamWait(8, 110, 700),  # of another thread
        StreamWait(7, 950, 990),
    ]
    (found,) = copied_calls([(call, 7)], [(90, 95, "c10d::allreduce_")], waits)
    assert (found.submitted_ns, found.start_ns, found.end_ns) == (90, 600, 900)
    assert found.arrival_ns == 600
    (received,) = copied_calls([(call, 9)], [], waits)
    assert received.arrival_ns == 100


@pytest.mark.heavy
@pytest.mark.parametrize("rank", [0, 1])
def test_the_calls_of_a_real_trace_have_submission_arrival_and_end(rank: int) -> None:
    file = read_trace_file(TRACES[rank])
    assert (file.rank, file.size, file.backend, file.host) == (rank, 2, "gloo", "")
    assert file.on_gpu
    assert file.copies_to_host
    assert len(file.calls) == NUM_STEPS * CALLS_OF_A_STEP
    for call in file.calls:
        assert call.submitted_ns is not None
        assert call.end_ns is not None
        assert call.submitted_ns < call.arrival_ns < call.end_ns


@pytest.mark.heavy
def test_the_rank_without_the_sleeping_kernel_is_blocked(analysis: RunAnalysis) -> None:
    """Rank 1 sleeps 20 ms in backward; both share the GPU, so that rank 0 is slowed, too."""
    steps = analysis.run.steps
    assert len(steps) == 2 * NUM_STEPS
    total = sum(steps[f"{part}_ns"].astype("int64") for part in RECORDED_PARTS)
    assert total.tolist() == steps["dur_ns"].tolist()
    blocked = steps.groupby("rank")["blocked_ns"].mean() / 1e6
    assert 17 < blocked[0] < 25
    assert 4 < blocked[1] < 7
    backward = steps.groupby("rank")["backward_ns"].mean() / 1e6
    assert 13 < backward[1] - backward[0] < 20
    # DDP's copies of its buckets are part of backward, and lie outside nothing.
    assert (steps["outside_ns"] < 600_000).all()


@pytest.mark.heavy
def test_the_verdict_names_the_rank_that_the_other_waited_for(analysis: RunAnalysis) -> None:
    sentence = analysis.verdict.sentence
    assert sentence.startswith("gloo_ddp, 2 ranks: 49.4 ms per step, 29.8 % of it blocked")
    assert "rank 1 arrives last in 2 of 2 steps" in sentence
    assert "outside" not in sentence
    assert "outside-phases" not in analysis.findings["id"].tolist()


@pytest.mark.heavy
def test_without_a_host_name_the_ends_of_collectives_relate_the_clocks(
    analysis: RunAnalysis,
) -> None:
    """Both ranks were on one host, which torch 2.11 does not write: the truth is a shift of 0."""
    ranks = analysis.run.ranks.set_index("rank")
    assert ranks["clock_method"].astype(str).tolist() == ["same-clock", "collectives"]
    shift = ranks["clock_offset_ns"][1] - ranks["clock_offset_ns"][0]
    assert abs(shift) < 500_000 < ranks["clock_error_ns"][1] < 5_000_000
    clocks = analysis.clocks.set_index("rank")
    assert clocks["consistent"].all()
    assert clocks["u_ns"][1] < 5_000_000


@pytest.mark.heavy
def test_nccl_on_one_rank_has_calls_without_kernels_and_nothing_to_wait_for() -> None:
    path = H200 / "nccl_ddp.json.gz"
    file = read_trace_file(path)
    assert (file.backend, file.size, file.copies_to_host) == ("nccl", 1, False)
    assert {call.collective for call in file.calls} == {"ALLREDUCE", "BROADCAST"}
    assert not file.times_collectives
    analysis = analyze_run(load_run([path]))
    assert analysis.verdict.sentence.startswith("nccl_ddp, 1 rank: ")
    assert "blocked" not in analysis.verdict.sentence
    steps = analysis.run.steps
    assert (steps["forward_ns"] > 6e6).all()
    assert (steps["backward_ns"] > 7e6).all()
    assert (steps["outside_ns"] < 300_000).all()


@pytest.mark.heavy
def test_fsdp2_on_one_rank_has_forward_and_backward_and_no_straggler() -> None:
    analysis = analyze_run(load_run([Path(H200 / "nccl_fsdp2.json.gz")]))
    assert "blocked" not in analysis.verdict.sentence
    assert set(analysis.run.segments["engine"].astype(str)) == {"fsdp"}
    steps = analysis.run.steps
    assert (steps["forward_ns"] > 15e6).all()
    assert (steps["backward_ns"] > 15e6).all()
    assert analysis.stragglers.empty
    assert analysis.caused_wait.empty
