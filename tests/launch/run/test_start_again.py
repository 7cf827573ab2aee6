from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.launch.run import start_again
from hvdprof.launch.run.start_again import MOST_RESTARTS, starts_again
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord

SAMPLES = Path(__file__).parents[2] / "rundir" / "launcher_failures"
MPIRUN_ON_A_RANK = (
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[30053,1],0]\n  Exit code:    3\n"
)


@pytest.fixture
def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[bool, PassRecord]]:
    """Asks about a launch that printed something, after some restarts."""
    monkeypatch.setattr(start_again, "_SHORTEST_WAIT_S", 0.0)
    monkeypatch.setattr(start_again, "_LONGEST_WAIT_S", 0.0)

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
