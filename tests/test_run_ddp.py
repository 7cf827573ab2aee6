"""`hvdprof run` on unmodified DDP scripts by torchrun and mpirun, with 2 ranks over Gloo."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import ddp_script
from tests.builders.free_ports import free_ports
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(600)]

SCRIPT = ddp_script.__file__


def measured(folder: Path, *command: str) -> tuple[str, RunAnalysis]:
    """What `hvdprof run` prints, and the analysis of the run."""
    ended = hvdprof("run", "-q", "-o", str(folder), *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert Manifest.read(folder).status == Status.DONE
    return " ".join(ended.stdout.split()), analyze_run(load_run(folder))


def test_a_light_recording_holds_windows_without_steps_and_gradients(tmp_path):
    own = ("--light", "--np", "2", "--launcher", "torchrun", "--", "python", SCRIPT)
    fault = ("--fault", "update:rank=1:ms=15")
    printed, analysis = measured(tmp_path / "run", *own, "--steps", "150", *fault)

    assert "Light recording: means over windows" in printed
    assert "hvdprof run -q" in printed
    run = analysis.run
    measured_steps = run.windows.query("not warmup")["num_steps"].sum()
    assert measured_steps >= 2 * 140
    (launch,) = analysis.launches.to_dict("records")
    assert 2 * (launch["num_steps"] + launch["num_cut_steps"]) == measured_steps
    assert not len(run.arrivals) + len(run.events) + len(run.gradients)
    files = sorted((tmp_path / "run").glob("passes/*/recorder/rank-*.jsonl"))
    assert len(files) == 2
    assert not any(b'"kind":"step"' in file.read_bytes() for file in files)
    assert not (tmp_path / "run" / "passes" / "01-np2-ddp-throughput-r1" / "flight").exists()


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A script without a bug on one and two ranks, whose launches take turns."""
    folder = tmp_path_factory.mktemp("ddp") / "clean"
    own = ("--np", "1,2", "--", "torchrun", "--nproc-per-node", "2", "--standalone")
    return measured(folder, *own, SCRIPT)


@pytest.mark.ran(
    "`hvdprof run` of [DDP scripts](run.md#ddp-scripts) by `torchrun`",
    "torch 2.13 with Gloo",
    "one host, 1 and 2 ranks",
)
def test_a_torchrun_command_is_a_sweep_against_ddp_of_one_rank(clean):
    printed, analysis = clean

    assert "ddp_script on 2 ranks under DDP:" in printed
    assert "scaling efficiency against ddp np=1" in printed
    assert analysis.scaling["np"].tolist() == [1, 2]
    assert set(analysis.scaling["engine"]) == {"ddp"}
    modes = [record.mode for record in analysis.run.manifest.passes]
    assert modes == ["throughput", "throughput", "trace"]
    names = [record.id.partition("-")[2] for record in analysis.run.manifest.passes]
    assert names == ["np1-throughput-r1", "np2-throughput-r1", "np2-trace-r1"]
    assert {record.engine for record in analysis.run.manifest.passes} == {"ddp"}


def test_steps_hold_phases_waits_and_gradients(clean):
    run = clean[1].run
    steps = run.steps[~run.steps["warmup"]]

    assert set(steps["samples"]) == {ddp_script.BATCH}
    for part in ("data", "forward", "backward", "optimizer"):
        assert (steps[f"{part}_ns"] > 0).all(), part
    assert (steps["blocked_ns"] > 0).all()
    gradients = run.table("gradients")
    sent = gradients["sent_bytes"] / gradients["size_bytes"]
    assert sent.groupby(gradients["pass_id"], observed=True).max().tolist() == [0, 1, 1]
    assert set(gradients["tensor"]) == {"begin.weight", "begin.bias", "end.weight", "end.bias"}


def test_the_trace_launch_holds_the_arrival_of_every_collective(clean):
    run = clean[1].run
    (trace,) = [record.id for record in run.manifest.passes if record.mode == "trace"]
    folder = RunPaths(run.folder).of_pass(trace).flight_folder

    calls = load_run(folder).table("rank_collectives")

    reduced = calls[(calls["collective"] == "ALLREDUCE") & (calls["match_id"] >= 0)]
    assert set(reduced["rank"]) == {0, 1}
    # One bucket per step on each rank.
    assert reduced.groupby("rank")["seq"].count().min() >= 40
    assert (reduced["submitted_ns"] > 0).all()
    # The tables of the run hold the same calls, in their steps and on the clock of rank 0.
    own = run.rank_collectives
    assert len(own) == len(calls)
    waits = run.steps[(run.steps["pass_id"] == trace) & ~run.steps["warmup"]]
    steps = waits.set_index(["rank", "step"])
    placed = own[(own["collective"] == "ALLREDUCE") & (own["step"] >= waits["step"].min())]
    assert len(placed) >= 40
    for call in placed.to_dict("records"):
        step = steps.loc[(call["rank"], call["step"])]
        assert step["start_ns"] <= call["arrival_ns"] < step["start_ns"] + step["dur_ns"]


def test_an_accumulating_loop_is_recorded_whole(tmp_path):
    own = ("--launcher", "torchrun", "--np", "2", "--no-trace", "--", "python", SCRIPT)
    _, analysis = measured(tmp_path / "run", *own, "--kind", "accumulate", "--steps", "20")

    is_recorded_whole(analysis, num_steps=20)


@pytest.mark.ran(
    "the same by `--launcher mpirun`",
    "torch 2.13 with Gloo, Open MPI 4.1.8",
    "one host, 2 ranks",
)
def test_a_trainer_that_finds_its_rank_by_itself_is_recorded_below_mpirun(tmp_path):
    # As users do it: the script reads the variables of Open MPI, and hvdprof sets none of its own.
    launch = ("--launcher", "mpirun", "--np", "2", "--no-trace", "--num-threads", "1")
    own = (*launch, "--env", f"MASTER_PORT={free_ports(1)[0]}", "--", "python", SCRIPT)
    printed, analysis = measured(tmp_path / "run", *own, "--kind", "trainer", "--steps", "20")

    assert "ddp_script on 2 ranks under DDP:" in printed
    assert sorted(analysis.run.ranks["local_rank"]) == [0, 1]
    is_recorded_whole(analysis, num_steps=20)


def is_recorded_whole(analysis: RunAnalysis, num_steps: int) -> None:
    """Every update of both ranks, each with its samples, its parts and its wait."""
    steps = analysis.run.steps
    # The first update shows the recorder which model the script trains.
    assert steps.groupby("rank").size().tolist() == [num_steps - 1] * 2
    seen = steps[~steps["warmup"]]
    assert set(seen["samples"]) == {ddp_script.BATCH}
    for part in ("data", "forward", "backward", "optimizer", "blocked"):
        assert (seen[f"{part}_ns"] > 0).all(), part
