"""`hvdprof run` on unmodified scripts under real Horovod."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import user_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(600)]

SCRIPT = user_script.__file__


def run(folder: Path, *options: str, script: tuple[str, ...] = (SCRIPT,)):
    """The ended command and the run directory; options of the script come after ``--``."""
    split = options.index("--") if "--" in options else len(options)
    own, of_script = options[:split], options[split + 1 :]
    return hvdprof("run", "-q", "-o", str(folder), *own, "--", "python", *script, *of_script)


def counted(folder: Path):
    """The steps that are not warm-up of the throughput pass."""
    read = load_run(folder)
    steps = read.steps[read.steps["pass_id"].astype(str).str.contains("throughput")]
    return read, steps[~steps["warmup"]]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A script on one and two ranks, by the installed command."""
    folder = tmp_path_factory.mktemp("run") / "sweep"
    own = ("run", "-q", "-o", str(folder), "--np", "1,2", "--controller", "gloo")
    script = ("--num-steps", "40", "--", "python", SCRIPT, "--epochs", "20")
    command = [str(Path(sys.executable).with_name("hvdprof")), *own, *script]
    return subprocess.run(command, capture_output=True, text=True, timeout=500), folder


@pytest.mark.ran(
    "`hvdprof run` of a script",
    "Gloo",
    "one host, 1 and 2 ranks",
)
def test_a_script_gets_a_verdict_without_a_change(sweep):
    ended, folder = sweep

    assert ended.returncode == 0, ended.stderr
    assert "user_script on 2 ranks:" in " ".join(ended.stdout.split())
    # Beside other load it may be too noisy to be known.
    efficiency = r"scaling efficiency (not known \(too noisy\) )?against horovod np=1"
    assert re.search(efficiency, " ".join(ended.stdout.split()))
    assert Manifest.read(folder).status == Status.DONE


def test_launches_at_several_sizes_take_turns(sweep):
    read = load_run(sweep[1])
    turns = read.table("turns")
    assert turns.groupby("pass_id", observed=True)["num_steps"].sum().tolist() == [40, 40]
    assert turns.groupby("pass_id", observed=True)["num_steps"].count().min() >= 2
    # What a turn holds was recorded by every rank, and nothing else counts.
    steps = analyze_run(read).job_steps
    taken = steps[steps["pass_id"].isin(turns["pass_id"])]
    assert taken.groupby("pass_id", observed=True)["step"].count().max() <= 40


def test_ranks_that_sleep_may_share_cores(tmp_path):
    folder = tmp_path / "shared"
    own = ("-np", "3", "--num-steps", "40", "--no-trace", "--controller", "gloo")
    ended = run(folder, *own, "--", "--epochs", "20", "--slow", "between")

    assert ended.returncode == 0, ended.stderr
    read = load_run(folder)
    (busy,), (record,) = read.segments["busy_cores"], read.manifest.passes
    num_cores = read.manifest.hosts[0]["num_cores"]
    # Two ranks wait for one that sleeps.
    assert 0 < busy < num_cores
    found = analyze_run(read).findings.set_index("id")["evidence"]
    is_idle = busy + record.other_cpu_cores <= 0.5 * num_cores
    is_shared = record.oversubscribed and not is_idle
    if "persistent-straggler" not in found:
        # Each rank is late where others have most of the cores.
        assert record.other_cpu_cores > 0.5 * num_cores
        return
    assert ("oversubscribed" in found["persistent-straggler"]) == is_shared


def test_batches_phases_and_tensors_are_seen(sweep):
    read, steps = counted(sweep[1])

    assert set(steps["samples"]) == {user_script.BATCH}
    for part in ("data", "forward", "backward", "optimizer"):
        assert (steps[f"{part}_ns"] > 0).mean() > 0.95, part
    assert (steps["outside_ns"] >= 0).all()
    assert set(read.arrivals["tensor"].astype(str)) == {
        f"allreduce.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")
    }
    # The steps between turns are recorded, too; those of the trace launch take none.
    of_two = steps[steps["pass_id"].astype(str).str.contains("np2")].groupby("rank").size()
    assert of_two[0] == of_two[1] >= 40
    traced = read.steps[read.steps["pass_id"].astype(str).str.contains("trace")]
    assert traced[~traced["warmup"]].groupby("rank").size().tolist() == [40, 40]


def test_the_trace_pass_joins_timeline_and_steps(sweep):
    analysis = analyze_run(load_run(sweep[1]))

    assert len(analysis.table("overlap"))
    assert (analysis.table("collectives")["step"] >= 5).any()


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A script that evaluates, started by ``horovodrun`` in front of ``mpirun``."""
    folder = tmp_path_factory.mktemp("run") / "evaluated"
    own = ("-np", "2", "--no-trace", "--launcher", "horovodrun", "--controller", "mpi")
    ended = run(folder, *own, "--", "--evaluate", "--epochs", "4")
    assert ended.returncode == 0, ended.stderr
    return folder


def test_evaluation_is_in_no_step(evaluated):
    read, _ = counted(evaluated)
    marked = read.steps[read.steps["warmup"] & (read.steps["step"] >= 5)]
    # The first step after each evaluation but the last.
    assert sorted(marked["step"].unique()) == [16, 32, 48]


def test_the_evaluation_after_the_last_step_is_recorded(evaluated):
    read, _ = counted(evaluated)
    last = read.evaluations[read.evaluations["after_last"]].set_index("rank")
    ends_ns = read.steps.assign(end_ns=read.steps["start_ns"] + read.steps["dur_ns"])

    assert last["step"].to_dict() == {0: 64, 1: 64}
    assert (last["dur_ns"] > 0).all()
    # It begins after the last step has ended; how long after depends on the machine.
    assert (last["start_ns"] >= ends_ns.groupby("rank")["end_ns"].max()).all()


@pytest.mark.ran(
    "`hvdprof run --launcher horovodrun --controller mpi`",
    "Open MPI 4.1.8",
    "one host, 2 ranks",
)
def test_horovodrun_in_front_of_mpirun(evaluated):
    record = Manifest.read(evaluated).passes[0]
    assert any(word.endswith("horovodrun") for word in record.command)
    assert counted(evaluated)[0].steps.groupby("rank").size().tolist() == [64, 64]


@pytest.mark.parametrize(
    ("sizes", "kinds"),
    [
        (("-np", "2"), ("--workers=2", "--adasum")),
        # Launches of two sizes, one after the other.
        (("--np", "1,2", "--no-interleave"), ("--accumulate=4", "--compile")),
        (("-np", "2"), ("--prefetch", "--by-hand", "--evaluate", "--accumulate=2")),
    ],
)
def test_kinds_of_scripts_are_recorded_whole(tmp_path, sizes, kinds):
    own = (*sizes, "--no-trace", "--controller", "mpi")
    ended = run(tmp_path / "r", *own, "--", *kinds, "--epochs", "6")

    assert ended.returncode == 0, ended.stderr
    read, steps = counted(tmp_path / "r")
    assert read.table("turns").empty
    # Every step of six epochs on two ranks, with its samples and its parts.
    # 512 samples, 2 ranks, 16 a batch: 16 batches an epoch.
    passes = next((int(kind[-1]) for kind in kinds if "accumulate" in kind), 1)
    assert set(steps["samples"]) == {passes * user_script.BATCH}
    # The first step after each evaluation but the last is marked.
    num_cut = 5 + (5 if "--evaluate" in kinds else 0)
    of_two = steps[steps["pass_id"].astype(str).str.contains("np2")]
    assert of_two.groupby("rank").size().tolist() == [96 // passes - num_cut] * 2
    # Adasum's optimizer waits in its step(), all of which is blocked; its update is in backward.
    parts = ("data", "forward", "backward", "blocked", "optimizer")
    for part in parts[:4] if "--adasum" in kinds else parts:
        assert (of_two[f"{part}_ns"] > 0).mean() > 0.9, part


def test_a_light_recording_names_the_straggler_of_a_horovod_script(tmp_path):
    own = ("-np", "2", "--light", "--controller", "gloo")
    ended = run(tmp_path / "r", *own, "--", "--epochs", "8", "--slow", "backward")

    assert ended.returncode == 0, ended.stderr
    printed = " ".join(ended.stdout.split())
    assert "Light recording: means over windows" in printed
    # The run directory is taken: the command of a full recording makes another one.
    assert "`hvdprof run -q -np 2 --controller gloo -- python" in printed
    analysis = analyze_run(load_run(tmp_path / "r"))
    of_rank = analysis.table("stragglers").set_index("rank")
    assert (of_rank.loc[1, "pattern"], of_rank.loc[1, "phase"]) == ("persistent", "backward")
    files = sorted((tmp_path / "r").glob("passes/*/recorder/rank-*.jsonl"))
    assert len(files) == 2
    assert not any(b'"kind":"step"' in file.read_bytes() for file in files)


@pytest.mark.waits
def test_a_rank_that_others_wait_for_is_named_and_ended(tmp_path):
    limits = ("--stall-warn", "4", "--stall-kill", "5", "--controller", "gloo", "--no-trace")
    ended = run(tmp_path / "r", "-np", "2", *limits, "--", "--hang-at", "8")

    assert ended.returncode == 6
    stalls = next((tmp_path / "r").glob("passes/*/stalls.jsonl")).read_text()
    assert "block_for_long" in stalls
    assert "rank 1" in " ".join(ended.stdout.split())


def test_an_exit_code_after_the_training_is_reported(tmp_path):
    ended = run(tmp_path / "r", "-np", "2", "--no-trace", "--", "--exit-code", "3")

    assert ended.returncode == 6
    first = " ".join(" ".join(ended.stdout.splitlines()[:3]).split())
    assert first.startswith("Failed at np=2: ")
    assert "exit code 3" in first
    assert "samples/s" in first


def test_a_script_without_horovod_runs_unharmed_and_is_recognized(tmp_path):
    script = tmp_path / "plain.py"
    script.write_text("import sys\nsys.stdout.write('done\\n')\n")

    ended = run(tmp_path / "r", "-np", "2", "--no-trace", script=(str(script),))

    assert ended.returncode == 6
    assert "recorded from hvd.DistributedOptimizer" in " ".join(ended.stdout.split())
    printed = next((tmp_path / "r").glob("passes/*/stdout.txt")).read_text()
    assert printed.count("done") == 2
