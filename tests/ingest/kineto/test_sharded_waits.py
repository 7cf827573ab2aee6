"""FSDP2 on CPUs waits where its ranges enclose a collective; each wait is a segment of the step."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from tests.builders.sharded_traces import (
    BACKWARD,
    COPY,
    FORWARD,
    TRANSFER,
    ShardedJob,
    kinds,
)

LATE_MS = 4.0


def _late(rank: int, phase: str) -> ShardedJob:
    return ShardedJob(late={(rank, phase): LATE_MS * 1000})


@pytest.mark.heavy
def test_a_step_has_a_wait_per_collective_with_its_kind(tmp_path: Path) -> None:
    run = load_run(ShardedJob().write(tmp_path))
    waits = run.table("waits")
    one = waits[(waits["rank"] == 1) & (waits["step"] == 5)]
    assert kinds(one["kind"].tolist()) == "uf uf ub rs ub rs"
    assert one["number"].tolist() == list(range(6))
    assert set(one["num_ranks"]) == {2}
    assert set(run.segments["engine"]) == {"fsdp"}
    # A gather ends with its range, a reduction before the copies that follow in it.
    assert one["dur_ns"].tolist() == pytest.approx(
        [1000 * (TRANSFER + 4 if kind.startswith("u") else TRANSFER - 1)
         for kind in one["kind"].astype(str)]
    )  # fmt: skip


@pytest.mark.heavy
def test_phases_are_without_the_waits(tmp_path: Path) -> None:
    steps = load_run(ShardedJob().write(tmp_path)).steps
    late = steps[steps["step"] > 3].mean(numeric_only=True) / 1000
    assert late["forward_ns"] == pytest.approx(2 * FORWARD, abs=50)
    assert late["backward_ns"] == pytest.approx(2 * (BACKWARD + COPY), abs=50)
    assert late["blocked_ns"] == pytest.approx(6 * TRANSFER, abs=50)
    assert late["outside_ns"] == pytest.approx(0, abs=1)


@pytest.mark.heavy
@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_straggler_of_the_segments_is_named(tmp_path: Path, rank: int, phase: str) -> None:
    analysis = analyze_run(load_run(_late(rank, phase).write(tmp_path)))
    (late,) = analysis.stragglers[analysis.stragglers["pattern"] == "persistent"].to_dict("records")
    assert (late["rank"], late["phase"]) == (rank, phase)
    # Two segments, each with half of the delay.
    assert late["cost_ns"] == pytest.approx(LATE_MS * 1e6, rel=0.02)
    assert f"rank {rank}, {phase} phase" in analysis.verdict.sentence
    assert "not separate" not in analysis.verdict.caveat


@pytest.mark.heavy
def test_a_gather_ahead_waits_in_its_copy(tmp_path: Path) -> None:
    job = ShardedJob(gathers_ahead=True, late={(1, "forward"): LATE_MS * 1000})
    waits = load_run(job.write(tmp_path)).table("waits")
    of_0 = waits[(waits["rank"] == 0) & (waits["step"] == 5)]
    assert kinds(of_0["kind"].tolist()) == "uf uf ub rs ub rs"
    ahead = of_0.iloc[1]
    # Rank 0 computes while rank 1 has not yet come, and waits for the rest of it.
    assert ahead["start_ns"] - ahead["submitted_ns"] == pytest.approx(FORWARD * 1000, abs=2000)
    assert ahead["dur_ns"] == pytest.approx((LATE_MS * 500 + TRANSFER) * 1000, abs=5000)


@pytest.mark.heavy
def test_a_collective_of_the_script_is_a_wait_of_its_own(tmp_path: Path) -> None:
    waits = load_run(ShardedJob(num_steps=6, with_mean=True).write(tmp_path)).table("waits")
    assert kinds(waits[(waits["rank"] == 0) & (waits["step"] == 4)]["kind"].tolist()) == (
        "uf uf ub rs ub rs u"
    )


def test_one_rank_gathers_nothing_and_waits_for_nobody(tmp_path: Path) -> None:
    (path,) = ShardedJob(size=1).write(tmp_path)
    text = path.read_text().replace("FSDP::all_gather (", "skip (")
    path.write_text(
        text.replace("FSDP::post_backward_reduce (", "skip (")
        .replace("gloo:", "skip:")
        .replace("c10d::", "skip::")
    )
    steps = load_run([path]).steps
    assert steps["blocked_ns"].tolist() == [0] * 12
