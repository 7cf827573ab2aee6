import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import StalledRank
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.launch.run import attempts
from hvdprof.launch.run.attempts import (
    MOST_RESTARTS,
    interrupt,
    settle,
    split_unfinished,
    starts_again,
)
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings
from tests.builders.stalls import stall_at_end

FAILURE = Failure(reason="rank 1 ended with exit code 3")
SCRIPT = ScriptSettings(
    command=("python", "train.py"),
)
SAMPLES = Path(__file__).parents[2] / "rundir" / "launcher_failures"
MPIRUN_ON_A_RANK = (
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[30053,1],0]\n  Exit code:    3\n"
)


@pytest.fixture
def recorded(tmp_path):
    """A pass of a script on two ranks, of which each has recorded its training to the end."""
    record = plan_design(bench_settings(sizes=(2,), script=SCRIPT), LOCAL_FOUR_CORES).passes[0]
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    lines = [
        {"kind": "header"},
        {"kind": "segment", "id": "main"},
        *({"kind": "step", "segment": "main", "step": step} for step in range(30)),
        {"kind": "segment_end", "id": "main"},
        {"kind": "end"},
    ]
    for rank in range(2):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (paths.recorder_folder / f"rank-{rank}.jsonl").write_text(text)
    progress = PassProgress(paths)
    progress.update()
    return record, progress


def test_a_script_that_ends_well_is_done(recorded):
    record, progress = recorded
    settle(record, progress, None, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.DONE]
    assert record.status == Status.DONE


@pytest.mark.parametrize(("least", "status"), [(25, Status.PARTIAL), (31, Status.FAILED)])
def test_the_exit_code_of_a_script_counts_also_after_its_training(recorded, least, status):
    record, progress = recorded
    settle(record, progress, FAILURE, least_steps=least)

    assert [segment.status for segment in record.segments] == [status]
    assert record.segments[0].failure == FAILURE
    assert record.status == Status.FAILED


def test_reference_models_have_a_result_once_they_are_recorded(recorded):
    record, progress = recorded
    settle(record, progress, FAILURE)

    assert [segment.status for segment in record.segments] == [Status.DONE]


def test_processes_that_are_each_a_job_of_their_own_are_named(recorded):
    record, progress = recorded
    del progress.ranks[1]
    progress.ranks[0].header = {"kind": "header", "rank": 0, "size": 1}
    settle(record, progress, None, least_steps=25)

    (segment,) = record.segments
    assert segment.status == Status.FAILED
    assert "every process was a job of its own" in segment.failure.reason
    assert "--mpi=pmix" in segment.failure.reason


@pytest.mark.parametrize(
    ("least", "status"),
    [(25, Status.PARTIAL), (31, Status.INTERRUPTED), (None, Status.INTERRUPTED)],
)
def test_an_interrupted_script_has_a_result_after_steps_enough(recorded, least, status):
    record, progress = recorded
    for state in progress.ranks.values():
        state.ended.clear()
    interrupt(record, progress, least_steps=least)

    (segment,) = record.segments
    assert (segment.status, record.status) == (status, Status.INTERRUPTED)
    assert (segment.failure is not None) == (status == Status.PARTIAL)
    again = split_unfinished(record, [record], retry_failed=True)
    assert [one.status for one in again.segments] == [Status.PLANNED]
    assert again.segments[0].failure is None


def test_what_all_ranks_had_ended_before_an_interrupt_is_done(recorded):
    record, progress = recorded
    interrupt(record, progress, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.DONE]
    assert record.segments[0].failure is None


def test_a_rank_that_recorded_nothing_leaves_an_interrupted_script_without_a_result(recorded):
    record, progress = recorded
    del progress.ranks[1]
    interrupt(record, progress, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.INTERRUPTED]


def test_a_launch_that_the_user_ended_while_ranks_hung_says_who_waited_for_whom(recorded):
    record, progress = recorded
    for state in progress.ranks.values():
        state.ended.clear()
    stall = stall_at_end(StalledRank(rank=1, state="runs", step=30, phase="data", tensors=[]), 9.0)
    interrupt(record, progress, least_steps=25, stall=stall)
    (segment,) = record.segments
    assert segment.failure is not None
    assert segment.failure.reason == f"it was interrupted; {stall.sentence()}"
    assert (segment.failure.kind, segment.failure.rank) == (FailureKind.INTERRUPTED, 1)


@pytest.fixture
def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[bool, PassRecord]]:
    """Asks about a launch that printed something, after some restarts."""
    monkeypatch.setattr(attempts, "_SHORTEST_WAIT_S", 0.0)
    monkeypatch.setattr(attempts, "_LONGEST_WAIT_S", 0.0)

    def ask(
        stderr: str, stdout: str = "", *, exit_code: int = 1, restarts: int = 0
    ) -> tuple[bool, PassRecord]:
        record = PassRecord(
            id="01-np2-throughput-r1",
            mode="throughput",
            size=2,
            repeat=1,
            controller="mpi",
            oversubscribed=False,
            pinned=False,
            segments=[],
            restarts=["before"] * restarts,
        )
        paths = PassPaths(tmp_path)
        paths.stderr.write_text(stderr)
        paths.stdout.write_text(stdout)
        return starts_again(record, paths, exit_code), record

    return ask


def _sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


def test_a_launcher_that_lost_a_race_is_started_again_and_its_output_stays(
    asked: Callable[..., tuple[bool, PassRecord]], tmp_path: Path
) -> None:
    again, record = asked(_sample("ompi4_session_race"), "something\n")
    assert again
    assert record.restarts[0].endswith("pid.22579 Error: No such file or directory")
    assert "mkdir" in (tmp_path / "stderr-start1.txt").read_text()
    assert (tmp_path / "stdout-start1.txt").read_text() == "something\n"
    assert not (tmp_path / "stderr.txt").exists()


@pytest.mark.parametrize(
    ("stderr", "exit_code"),
    [
        (_sample("torchrun_port"), 1),
        (_sample("torchrun_workerport"), 1),
        (_sample("ssh_startups"), 255),
        # Not known, and of no rank: the launcher's own.
        ("mpirun: something went wrong\n", 1),
        ("", 213),
    ],
)
def test_failures_that_may_pass_are_tried_again(
    asked: Callable[..., tuple[bool, PassRecord]], stderr: str, exit_code: int
) -> None:
    again, record = asked(stderr, exit_code=exit_code)
    assert again and len(record.restarts) == 1 and record.restarts[0]


@pytest.mark.parametrize(
    ("stderr", "exit_code"),
    [
        # The script fails by itself.
        ("[0]<stderr>:Traceback (most recent call last):\n[0]<stderr>:ImportError: no x\n", 1),
        ("Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n", 1),
        (MPIRUN_ON_A_RANK, 3),
        ("[1,0]<stderr>:usage: no data\n", 2),
        # In the words of a launcher, too.
        (
            "[1,0]<stderr>:Traceback (most recent call last):\n"
            "[1,0]<stderr>:DistNetworkError: The server socket has failed to listen on any local "
            "network address. port: 80\n",
            1,
        ),
        ("Process 0 exit with status code 127.\n", 1),
        # Causes that last.
        (_sample("ompi4_slots"), 1),
        (_sample("ompi5_unresolved"), 255),
        (_sample("ompi4_tmpfull"), 1),
        (_sample("hvd_hostfile"), 1),
        (_sample("srun_pmix"), 1),
        (_sample("torchrun_notfound"), 1),
        # Ended from outside, and ended well.
        ("", -9),
        ("", 137),
        ("", 0),
    ],
)
def test_scripts_that_fail_and_causes_that_last_are_not(
    asked: Callable[..., tuple[bool, PassRecord]], stderr: str, exit_code: int
) -> None:
    again, record = asked(stderr, exit_code=exit_code)
    assert not again
    assert not record.restarts


def test_what_persists_is_a_failure(asked: Callable[..., tuple[bool, PassRecord]]) -> None:
    again, _ = asked(_sample("ompi4_session_race"), restarts=MOST_RESTARTS)
    assert not again
