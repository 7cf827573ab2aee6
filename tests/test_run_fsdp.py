"""`hvdprof run` on an unmodified FSDP2 script: which rank is late, where, and at which cost."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, launch_title, load_run
from hvdprof.model.run import RunAnalysis
from tests.builders import fsdp_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]

LATE_MS = 200.0
"""Longer than all else in a step, also on a busy machine."""

SCRIPT = fsdp_script.__file__
OPTIONS = ("-q", "--no-trace", "--num-steps", "25", "--num-warmup-batches", "3")


def analysed(folder: Path, *command: str) -> RunAnalysis:
    ended = hvdprof("run", *OPTIONS, "-o", str(folder), *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return analyze_run(load_run(folder))


def late(phase: str) -> tuple[str, ...]:
    fault = ("--late-rank", "1", "--late-phase", phase, "--late-ms", str(LATE_MS))
    return ("--launcher", "torchrun", "--np", "2", "--", "python", SCRIPT, *fault)


@pytest.mark.parametrize("phase", ["data", "forward", "backward"])
def test_the_late_rank_is_named_with_phase_and_cost(tmp_path, phase):
    analysis = analysed(tmp_path / "run", *late(phase))

    assert f"rank 1, {phase} phase" in analysis.verdict.sentence, analysis.verdict.sentence
    table = analysis.table("stragglers").set_index("rank")
    assert table.loc[1, ["pattern", "phase"]].tolist() == ["persistent", phase]
    assert table.loc[0, "pattern"] == "none"
    # On a busy machine sleeping work takes longer, and the other rank is slowed at times.
    assert 0.7 * LATE_MS < table.loc[1, "lateness_ns"] / 1e6 < 1.6 * LATE_MS
    assert 0.7 * LATE_MS < table.loc[1, "cost_ns"] / 1e6 < 1.6 * LATE_MS
    waits = analysis.run.table("waits")
    kinds = waits.groupby(["rank", "kind"], observed=True).size().unstack()
    steps = analysis.run.steps.groupby("rank").size()
    # Three blocks, and what is left in the root.
    assert kinds["unshard_forward"].tolist() == (4 * steps).tolist()
    assert kinds["reduce_scatter"].tolist() == (4 * steps).tolist()
    assert (kinds["unshard_backward"] > 2 * steps).all()
    assert (waits["num_ranks"] == 2).all()
    gradients = analysis.run.gradients
    assert "0.linear.weight" in set(gradients["tensor"].astype(str))


def test_a_clean_run_below_torchrun_accuses_no_rank(tmp_path):
    launch = ("--", "torchrun", "--nproc-per-node", "2", SCRIPT)
    analysis = analysed(tmp_path / "run", *launch)

    assert "straggler" not in analysis.verdict.sentence, analysis.verdict.sentence
    (record,) = analysis.run.manifest.passes
    assert launch_title(record) == "2 ranks, FSDP2, throughput, repeat 1"
    table = analysis.table("stragglers")
    assert set(table["pattern"]) <= {"none", "rotating"}
