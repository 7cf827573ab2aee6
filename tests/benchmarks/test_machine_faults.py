"""Jobs with faults of their input and of the machine: how they are drawn, launched and judged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.machine_draw import ALL, DECODE, KINDS, MEMORY, NEIGHBOUR, QUEUE, draw
from benchmarks.machine_faults import Judged, run, table
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run

STARVED = 63
"""A seed whose rank 1 waits for samples that are slow in workers, under DDP."""


def finding(**given: Any) -> dict[str, Any]:
    usual = {"id": "input-bound", "title": "Input-bound", "subject": "job on 2 ranks"}
    return {**usual, "evidence": "", "action": "", "fix": "", **given}


def test_twelve_seeds_in_a_row_have_each_kind_once_and_a_twin_without() -> None:
    jobs = [draw(seed) for seed in range(40, 52)]

    assert sorted(job.kind for job in jobs) == sorted(KINDS)
    for job in jobs:
        twin = job.clean()
        assert draw(job.seed) == job
        assert (twin.quota, twin.neighbours, twin.grow_mb, twin.persistent) == (1, 0, 0, True)
        assert (twin.is_limited, twin.shares_core) == (False, False)
        is_cured = twin.load_ms <= 0.25 * twin.step_ms * max(twin.workers, 1)
        assert is_cured or (job.kind == QUEUE and twin.prefetch == 8)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (DECODE, "Of that, fetching samples takes 90 %", "Of that, collating samples takes 90 %"),
        (NEIGHBOUR, "it had no core for 85 % of the time", "Rank 0 waits"),
    ],
)
def test_a_fault_is_named_with_its_rank(kind: str, right: str, wrong: str) -> None:
    job = replace(draw(0), kind=kind, rank=1)

    def is_named(evidence: str, subject: str = "rank 1") -> bool:
        one = finding(id="persistent-straggler", subject=subject, evidence=evidence)
        return Judged(job, 1.0, (one,)).is_right

    assert is_named(right)
    assert not is_named(right, "rank 0")
    assert not is_named(wrong)


def test_a_clean_twin_accuses_nothing_but_other_work() -> None:
    memory = replace(draw(0), kind=MEMORY).clean()
    beside = finding(evidence="To take one over they had no core for 50 % of the time.")

    assert Judged(memory, 1.0, ()).is_right
    assert Judged(memory, 1.0, (beside,)).is_right
    assert not Judged(memory, 1.0, (finding(),)).is_right
    # Cores are what the fault itself takes.
    assert not Judged(replace(memory, kind=NEIGHBOUR), 1.0, (beside,)).is_right


def test_the_table_counts_and_names_what_was_missed() -> None:
    job = replace(draw(0), kind=QUEUE, rank=ALL)
    named = Judged(job, 3.0, (finding(fix="set prefetch_factor=4"),))
    text = table([named, Judged(job.clean(), 5.0, (finding(fix="set num_workers=2"),))], "command")

    assert f"| {QUEUE} | prefetch_factor= | 1 of 1 | 1 of 1 |" in text
    assert "load 3.0 to 5.0" in text
    assert f'| {QUEUE}, clean | 0 | 5.0 | "Input-bound: set num_workers=2" |' in text


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.timeout(600)
def test_a_starved_rank_is_sampled_and_its_stage_named(tmp_path: Path) -> None:
    job = replace(draw(STARVED), num_steps=80)
    assert (job.kind, job.rank, job.engine, job.on_core) == (DECODE, 1, "ddp", False)

    judged = run(job, tmp_path)
    loaded = load_run(tmp_path / job.name / "run")

    samples = loaded.line_samples.query("process == 'worker' and rank == 1")
    by_stage = samples.groupby("stage", observed=True)["samples"].sum()
    assert by_stage["fetch"] > 10 * by_stage.get("collate", 0)
    fetched = samples[(samples["stage"] == "fetch").to_numpy() & (samples["file"] != "").to_numpy()]
    assert fetched["samples"].sum() > 0.9 * by_stage["fetch"]
    machine = analyze_run(loaded).table("rank_machine").astype({"measure": str})
    means = machine.pivot_table(index="measure", columns="rank", values="mean")
    assert means.loc["num_workers", 1] == job.workers
    assert means.loc["queue_empty", 1] > means.loc["queue_empty", 0]
    assert means.loc["batches_ready", 1] < means.loc["batches_ready", 0]
    assert means.loc["batch_wait", 1] > 0.2
    assert judged.is_named, judged.said
