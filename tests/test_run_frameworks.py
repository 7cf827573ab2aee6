"""`hvdprof run` on unmodified scripts of Lightning, Accelerate and the Trainer of Transformers."""

import importlib.util
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from tests.builders.places import ROOT
from tests.builders.running_command import hvdprof

FRAMEWORKS = ("lightning", "accelerate", "trainer")

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.frameworks,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("lightning", "accelerate", "transformers"))),
        reason="no Lightning, Accelerate and Transformers here: make test-frameworks",
    ),
    pytest.mark.parametrize("framework", FRAMEWORKS),
]

# Not imported: what it imports is there in the environment of these tests alone.
SCRIPT = str(ROOT / "tests" / "builders" / "framework_script.py")
BATCH, WARMUP, UPDATES = 8, 5, 24
FAULT_MS = 50.0
FORWARD_NS, BACKWARD_NS = 8e6, 12e6
"""What the layers of the script sleep."""


def measured(folder: Path, *command: str) -> RunAnalysis:
    """The analysis of a launch in which no rank reported a problem."""
    own = ("run", "-q", "--no-trace", "--num-warmup-batches", str(WARMUP), "-o", str(folder))
    ended = hvdprof(*own, *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "hvdprof recorder:" not in "".join(
        path.read_text() for path in folder.glob("passes/*/std*.txt")
    )
    return analyze_run(load_run(folder))


def counted(analysis: RunAnalysis):
    steps = analysis.run.steps
    return steps[~steps["warmup"]]


@pytest.mark.ran(
    "`hvdprof run` of scripts of [frameworks](engines.md#scripts-of-frameworks)",
    "Lightning 2.6.6, Accelerate 1.15.0, Transformers 5.23.0; Gloo",
    "one host, 2 ranks",
)
def test_a_clean_script_has_all_phases_and_no_straggler(tmp_path, framework):
    launch = ("--launcher", "torchrun", "--np", "2", "--", "python", SCRIPT)
    analysis = measured(tmp_path / "run", *launch, framework, "--updates", str(UPDATES))

    steps = counted(analysis)
    assert steps.groupby("rank").size().tolist() == [UPDATES - WARMUP] * 2
    assert set(steps["samples"]) == {BATCH}
    # The last batch of an epoch is loaded in the step before by Accelerate and the Trainer.
    assert (steps["data_ns"] > 0).groupby(steps["rank"]).sum().min() >= UPDATES - WARMUP - 1
    assert (steps["forward_ns"] >= FORWARD_NS).all()
    assert (steps["backward_ns"] >= BACKWARD_NS).all()
    assert (steps["blocked_ns"] > 0).all()
    assert (steps["optimizer_ns"] > 0).all()
    # Neither forward nor backward pass is hidden in another phase.
    assert steps["optimizer_ns"].median() < FORWARD_NS / 2
    assert steps["outside_ns"].median() < FORWARD_NS / 2
    assert set(analysis.scaling["engine"]) == {"ddp"}
    assert not [one for one in analysis.findings["id"] if "straggler" in str(one)]


def test_accumulated_batches_and_the_slow_dataset_of_one_rank(tmp_path, framework):
    launch = ("--", "torchrun", "--nproc-per-node", "2", SCRIPT, framework)
    fault = ("--accumulate", "2", "--fault", f"data:rank=1:ms={FAULT_MS:g}")
    analysis = measured(tmp_path / "run", *launch, *fault, "--updates", str(UPDATES))

    steps = counted(analysis)
    assert steps.groupby("rank").size().tolist() == [UPDATES - WARMUP] * 2
    # Accelerate loads one batch ahead, so fewer are left for the last step.
    before = steps[steps["step"] < steps["step"].max()]
    assert set(before["samples"]) == {2 * BATCH}
    assert (steps["forward_ns"] >= 2 * FORWARD_NS).all()
    assert (steps["backward_ns"] >= 2 * BACKWARD_NS).all()
    assert steps["optimizer_ns"].median() < FORWARD_NS / 2
    assert "straggler (rank 1, data phase)" in analysis.verdict.sentence, analysis.verdict.sentence
    table = analysis.table("stragglers").set_index("rank")
    assert table.loc[1, ["pattern", "phase"]].tolist() == ["persistent", "data"]
    assert 0.7 < table.loc[1, "cost_ns"] / (2e6 * FAULT_MS) < 1.3
