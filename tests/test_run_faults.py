"""Real faults of scripts under `hvdprof run`: named with cause, rank and host, nothing is lost."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run, write_report
from hvdprof.launch.plan.environment import RECORDER_DIR
from hvdprof.launch.processes.marked_processes import marked_processes
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import user_script
from tests.builders.processes import is_running
from tests.builders.running_command import fill_disk, hvdprof, pids_in_step, started, wait_for
from tests.builders.small_disk import small_disk

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(900)]

ENOUGH = 60
"""Steps after which a launch that fails has a result."""


def command(controller: str, *options: str, epochs: int = 100_000) -> tuple[str, ...]:
    own = ("run", "--np", "2", "-q", "-o", "run", "--controller", controller, *options)
    return (*own, "--", "python", user_script.__file__, "--epochs", str(epochs))


def failure_of(run: Path) -> Failure:
    (failure,) = [
        segment.failure
        for record in Manifest.read(run).passes
        for segment in record.segments
        if segment.failure is not None
    ]
    return failure


def words(text: str) -> str:
    return " ".join(text.split())


def readable(folder: Path) -> RunAnalysis:
    """The analysis of what was recorded before, of which a report can be made."""
    analysis = analyze_run(load_run(folder / "run"))
    write_report(analysis, folder / "report.md")
    assert "samples/s" in (folder / "report.md").read_text()
    assert analysis.scaling["np"].tolist() == [2]
    assert analysis.scaling["num_steps"].min() >= 20
    assert analysis.run.steps.groupby("rank").size().min() >= ENOUGH
    return analysis


def nothing_runs(run: Path) -> bool:
    folders = [RunPaths(run).of_pass(one.id).recorder_folder for one in Manifest.read(run).passes]
    return not any(marked_processes(str(folder), RECORDER_DIR) for folder in folders)


@pytest.mark.ran(
    "`hvdprof run` with a rank that a signal ends",
    "Gloo, Open MPI 4.1.8",
    "one host, 2 ranks",
)
@pytest.mark.parametrize(
    ("controller", "number", "reason"),
    [
        ("gloo", signal.SIGKILL, "rank 1 was ended by SIGKILL"),
        ("mpi", signal.SIGSEGV, "rank 1 was ended by SIGSEGV"),
        ("gloo", signal.SIGTERM, "rank 1 ended without a message"),
    ],
)
def test_a_rank_that_a_signal_ends(
    tmp_path: Path, controller: str, number: signal.Signals, reason: str
) -> None:
    with started(*command(controller, "--no-trace"), cwd=tmp_path) as process:
        pids = wait_for(lambda: pids_in_step(tmp_path / "run", step=ENOUGH))
        os.kill(pids[1], number)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 6, stderr
    assert "Traceback" not in stderr
    assert "hvdprof run --resume run" in stderr
    assert reason in words(stdout)
    failure = failure_of(tmp_path / "run")
    assert failure.reason.startswith(reason)
    assert (failure.rank, failure.host) == (1, socket.gethostname())
    assert nothing_runs(tmp_path / "run")
    (failed,) = readable(tmp_path).failed
    assert (failed.rank, failed.is_counted) == (1, True)


@pytest.mark.ran(
    "`hvdprof run` with a rank that raises",
    "Gloo, Open MPI 4.1.8",
    "one host, 2 ranks",
)
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_a_rank_that_raises(tmp_path: Path, controller: str) -> None:
    done = hvdprof(*command(controller, "--no-trace"), "--fail-at", str(ENOUGH + 5), cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr
    assert "hvdprof run --resume run" in done.stderr
    assert "rank 1 raised RuntimeError: on purpose" in words(done.stdout)
    # The steps before are a result, behind the failure.
    assert done.stdout.startswith("Failed at np=2: rank 1 raised RuntimeError: on purpose")
    assert "samples/s" in words("\n".join(done.stdout.splitlines()[:3]))
    ((segment,),) = [record.segments for record in Manifest.read(tmp_path / "run").passes]
    assert segment.status == Status.PARTIAL
    failure = failure_of(tmp_path / "run")
    assert (failure.rank, failure.host) == (1, socket.gethostname())
    # The last lines say where.
    assert any(Path(user_script.__file__).name in line for line in failure.lines)
    assert "RuntimeError: on purpose" in failure.lines[-1]
    assert nothing_runs(tmp_path / "run")
    readable(tmp_path)
    shown = hvdprof("analyze", "run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "rank 1 raised RuntimeError: on purpose" in words(shown.stdout)


def test_a_killed_hvdprof_leaves_no_rank_and_hides_nothing_that_was_recorded(
    tmp_path: Path,
) -> None:
    arguments = command("gloo", "--no-trace", "--num-steps", "99999")
    # Ranks that mostly sleep leave the cores to the analysis beside them.
    with started(*arguments, "--slow", "between", cwd=tmp_path) as process:
        pids = wait_for(lambda: pids_in_step(tmp_path / "run", step=ENOUGH))
        in_progress = hvdprof("analyze", "run", cwd=tmp_path)
        assert "Caveat: Provisional: 0 of 1 launches have ended." in words(in_progress.stdout)
        assert "samples/s" in in_progress.stdout
        process.send_signal(signal.SIGKILL)
        wait_for(lambda: not any(map(is_running, pids.values())), seconds=60)
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: nothing_runs(tmp_path / "run"), seconds=60)
    killed = hvdprof("analyze", "run", cwd=tmp_path)
    assert killed.returncode == 0, killed.stderr
    assert killed.stdout.startswith("Failed at np=2: hvdprof was killed.")
    assert "hvdprof run --resume run" in words(killed.stdout)
    assert Manifest.read(tmp_path / "run").was_killed
    (failed,) = readable(tmp_path).failed
    assert failed.is_counted


def is_interrupted_with_a_result(tmp_path: Path, controller: str) -> None:
    limits = ("--num-steps", "99999", "--num-warmup-batches", "3")
    arguments = command(controller, "--no-trace", *limits)
    with started(*arguments, cwd=tmp_path) as process:
        wait_for(lambda: pids_in_step(tmp_path / "run", step=ENOUGH))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "hvdprof run --resume run" in stderr
    assert stdout.startswith("Interrupted at np=2.")
    assert Manifest.read(tmp_path / "run").status == Status.INTERRUPTED
    assert nothing_runs(tmp_path / "run")
    readable(tmp_path)


def test_ctrl_c_under_mpi_keeps_the_steps_before(tmp_path: Path) -> None:
    is_interrupted_with_a_result(tmp_path, "mpi")


@pytest.mark.ran(
    "Ctrl-C and `--resume`",
    "Gloo",
    "one host, 2 ranks",
)
def test_ctrl_c_keeps_the_steps_before_and_resume_continues(tmp_path: Path) -> None:
    is_interrupted_with_a_result(tmp_path, "gloo")

    paths = RunPaths(tmp_path / "run")
    for changed in (paths.manifest, paths.resume):
        changed.write_text(changed.read_text().replace("99999", "25"))
    refused = hvdprof("run", "--resume", "run", "-q", cwd=tmp_path)
    assert refused.returncode == 2
    assert "was changed since" in refused.stderr and "Add --yes" in refused.stderr
    resumed = hvdprof("run", "--resume", "run", "-y", "-q", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    (record,) = Manifest.read(tmp_path / "run").passes
    assert (record.id, record.status) == ("01-np2-throughput-r1-attempt2", Status.DONE)
    analysis = analyze_run(load_run(tmp_path / "run"))
    assert analysis.scaling["num_launches"].tolist() == [1]
    # The script would continue: it is ended after the requested steps.
    of_rank = analysis.run.steps[analysis.run.steps["pass_id"] == record.id].groupby("rank")
    assert of_rank.size().tolist() == [28, 28]
    assert of_rank["warmup"].sum().tolist() == [3, 3]


@pytest.mark.waits
def test_a_daemon_that_keeps_the_output_open_does_not_keep_the_launch(tmp_path: Path) -> None:
    done = hvdprof(*command("gloo", "--no-trace", epochs=6), "--daemon", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = "all ranks had exited, but sleep kept their output open. The launch was ended 10 s later"
    assert text in words(done.stdout)
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == Status.DONE
    assert [text in warning for warning in manifest.warnings] == [True]
    assert nothing_runs(tmp_path / "run")
    readable(tmp_path)


@pytest.mark.waits
def test_ranks_in_different_collectives_are_named_with_both(tmp_path: Path) -> None:
    # Each rank says where it waits at most 4 s after its last change, and a look later. The launch
    # is ended long after that: ended at once, it would name the rank that has not said it yet.
    stall = ("--stall-warn", "4", "--stall-kill", "12", "--no-trace")
    done = hvdprof(*command("gloo", *stall), "--alone-at", str(ENOUGH), cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    failure = failure_of(tmp_path / "run")
    assert "ranks 0 and 1 have been waiting" in failure.reason
    waits = "in different collectives: rank 0 in the reduction of gradients at user_script.py:"
    assert waits in failure.reason
    assert "; rank 1 in allreduce validation at user_script.py:" in failure.reason
    assert "same collectives in the same order" in failure.lines[0]
    findings = readable(tmp_path).findings
    (row,) = findings[findings["title"] == "Mismatched collectives"].to_dict("records")
    assert "rank 1 in allreduce validation at user_script.py:" in row["evidence"]


@pytest.mark.waits
def test_a_rank_that_is_stopped_is_the_cause_of_the_timeout_of_its_peer(tmp_path: Path) -> None:
    arguments = command("gloo", "--no-trace")
    with started(*arguments, cwd=tmp_path, HOROVOD_GLOO_TIMEOUT_SECONDS="12") as process:
        pids = wait_for(lambda: pids_in_step(tmp_path / "run", step=ENOUGH))
        os.kill(pids[1], signal.SIGSTOP)
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 6, stderr
    failure = failure_of(tmp_path / "run")
    assert failure.reason.startswith("rank 1 was stopped by a signal for ")
    assert "rank 0 gave up waiting: " in failure.reason
    assert failure.rank == 1
    assert nothing_runs(tmp_path / "run")


@pytest.mark.ran(
    "a timeline that cannot be written",
    "Gloo",
    "one host, 2 ranks",
)
def test_a_timeline_that_cannot_be_written(tmp_path: Path) -> None:
    with started(*command("gloo", epochs=6), cwd=tmp_path) as process:
        wait_for((tmp_path / "run/passes/01-np2-throughput-r1").exists)
        # A pass before it is needed.
        folder = tmp_path / "run/passes/02-np2-trace-r1/timeline"
        folder.mkdir(parents=True)
        (folder / "main.json").symlink_to("/nowhere/at/all.json")
        stdout, stderr = process.communicate(timeout=300)
    # The throughput is measured: the trace launch is excluded.
    assert process.returncode == 0, stderr
    assert "1 of 2 measurements failed and is excluded: see Failed." in words(stdout)
    message = "rank 0 could not write Horovod's timeline: Error opening the Horovod Timeline file"
    assert message in words(stdout)
    failure = failure_of(tmp_path / "run")
    assert (failure.rank, failure.host) == (0, socket.gethostname())
    assert nothing_runs(tmp_path / "run")
    analysis = readable(tmp_path)
    assert {len(own) for _, own in analysis.run.steps.groupby(["pass_id", "rank"])} == {96}
    # Without a timeline its trace overhead is unknown.
    assert analysis.scaling["trace_overhead"].isna().all()


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "60m") as folder:
        yield folder


@pytest.mark.root
def test_no_space_left(small_disk: Path) -> None:
    with started(*command("gloo", epochs=60), cwd=small_disk) as process:
        wait_for(lambda: pids_in_step(small_disk / "run", step=ENOUGH))
        filler = fill_disk(small_disk)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 7, stdout + stderr
    assert "Traceback" not in stderr
    assert "disk space left" in stderr
    assert "hvdprof run --resume run" in stderr
    assert nothing_runs(small_disk / "run")
    # The manifest was written all the same, and says why.
    assert Manifest.read(small_disk / "run").status == Status.INTERRUPTED
    assert "disk space left" in failure_of(small_disk / "run").reason
    assert "disk space left" in words(stdout)
    filler.unlink()
    readable(small_disk)
