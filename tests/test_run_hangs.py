"""Jobs that hang and end before `--stall-warn`, with 2 ranks over Gloo."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.manifest import Manifest
from tests.builders import hanging_script
from tests.builders.running_command import hvdprof, started, wait_for

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.waits, pytest.mark.timeout(600)]

SCRIPT = hanging_script.__file__
TORCHRUN = ("--np", "2", "--", "torchrun", "--nproc-per-node", "2", SCRIPT, "--engine", "ddp")
HOROVODRUN = (
    *("--np", "2", "--launcher", "horovodrun", "--controller", "gloo", "--"),
    *("python", SCRIPT, "--engine", "horovod"),
)
LAUNCHERS = pytest.mark.parametrize("job", [TORCHRUN, HOROVODRUN], ids=["torchrun", "horovodrun"])


def words(text: str) -> str:
    return " ".join(text.split())


def failure_of(run: Path) -> Failure:
    ((segment,),) = [record.segments for record in Manifest.read(run).passes]
    assert segment.failure is not None
    return segment.failure


def first_finding(run: Path) -> dict[str, Any]:
    return dict(analyze_run(load_run(run)).findings.iloc[0])


def test_a_hang_that_the_timeout_ends_names_the_rank_and_its_line(tmp_path):
    run = tmp_path / "run"
    done = hvdprof("run", "-o", str(run), "--no-trace", "--timeout", "40", *TORCHRUN, "--sleep")

    assert done.returncode == 6, done.stderr
    assert "until the job ended: rank 0 waited" in done.stderr
    assert "sleep_for_long" in done.stderr
    printed = words(done.stdout)
    assert printed.startswith("Stall at step ")
    assert "blocked for" in printed and "on stalled rank 1 until the job ended" in printed
    assert "Rank 1 hangs at hanging_script.py:" in printed
    failure = failure_of(run)
    assert failure.reason.startswith("no progress on any rank for 40.0 s; stall at step ")
    assert "at hanging_script.py:" in failure.reason
    assert failure.rank == 1
    assert any("sleep_for_long" in line for line in failure.lines)
    assert "py-spy" not in done.stdout + done.stderr
    assert first_finding(run)["id"] == "stalled-tensors"


@LAUNCHERS
def test_ctrl_c_during_a_hang_names_the_rank_and_its_line(tmp_path, job):
    run = tmp_path / "run"
    with started("run", "-o", str(run), "--no-trace", *job, "--sleep") as process:
        wait_for(lambda: len(still(run)) == 2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)

    assert process.returncode == 130, stderr
    assert "until the job ended: rank 0 waited" in stderr
    assert "sleep_for_long" in stderr
    assert "Rank 1 hangs at hanging_script.py:" in words(stdout)
    failure = failure_of(run)
    assert failure.reason.startswith("it was interrupted; stall at step ")
    assert failure.rank == 1
    (record,) = Manifest.read(run).passes
    assert record.engine == job[-1]


@pytest.mark.parametrize(
    "job",
    # A launch that stays is ended by the timeout, which takes its time.
    [(*TORCHRUN, "--fewer"), (*HOROVODRUN, "--fewer"), (*HOROVODRUN, "--fewer", "--stay")],
    ids=["exits-torchrun", "exits-horovodrun", "stays-horovodrun"],
)
def test_a_rank_with_one_batch_less_is_named_as_such(tmp_path, job):
    run = tmp_path / "run"
    done = hvdprof("run", "-q", "-o", str(run), "--no-trace", "--timeout", "40", *job)

    assert done.returncode == 6, done.stderr
    fewer, last = hanging_script.BATCHES - 1, hanging_script.BATCHES
    assert words(done.stdout).startswith("Unequal numbers of batches per rank: rank 1 ")
    assert f"ended the training loop after {fewer} steps, rank 0 " in words(done.stdout)
    assert f"in step {last}" in words(done.stdout)
    failure = failure_of(run)
    assert "unequal numbers of batches per rank: " in failure.reason
    assert failure.rank == 1
    found = first_finding(run)
    assert (found["id"], found["severity"]) == ("unequal-batches", "error")
    assert found["action"].startswith("Give every rank as many batches: drop_last=True")


def test_a_timeout_of_gloo_quotes_the_stack_of_the_rank_that_hangs(tmp_path):
    run = tmp_path / "run"
    own = ("run", "-q", "-o", str(run), "--no-trace")
    done = hvdprof(*own, *TORCHRUN, "--sleep", "--timeout", "15")

    assert done.returncode == 6, done.stderr
    failure = failure_of(run)
    assert failure.reason.startswith("rank 0 gave up waiting: Timed out waiting 15000ms for ")
    assert "; stall at step " in failure.reason
    assert failure.rank == 1
    assert any("sleep_for_long" in line for line in failure.lines)
    assert "Rank 1 hangs at hanging_script.py:" in words(done.stdout)


def still(run: Path) -> list[float]:
    """The seconds without progress of the ranks that have written more than 8."""
    files = run.glob("passes/*/watch/rank-?.json")
    return [one for file in files if (one := json.loads(file.read_text())["still_s"]) > 8]
