import socket
from pathlib import Path

import pytest

from hvdprof.launch.diagnose import failure_place
from hvdprof.launch.diagnose.failure_place import MemoryWatch, with_place
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.rundir.failures.failure import Failure
from hvdprof.rundir.layout import PassPaths


def progress(folder: Path, hosts: dict[int, str]) -> PassProgress:
    made = PassProgress(PassPaths(folder))
    made.ranks = {
        rank: RankState(rank, header={"host": {"hostname": host}}) for rank, host in hosts.items()
    }
    return made


HERE = socket.gethostname()
KILLED = Failure(reason="rank 1 was ended by SIGKILL", rank=1, signal="SIGKILL")


@pytest.mark.parametrize(
    ("failure", "host"),
    [(KILLED, "node2"), (Failure(reason="?", rank=7), None), (Failure(reason="?"), None)],
)
def test_the_host_is_that_of_the_rank(tmp_path: Path, failure: Failure, host: str | None) -> None:
    assert with_place(failure, progress(tmp_path, {0: "node1", 1: "node2"}), 0).host == host


@pytest.mark.parametrize(
    ("host", "signal", "number", "explanation"),
    [
        (HERE, "SIGKILL", 1, "ended a process for lack of memory"),
        (HERE, "SIGKILL", 2, "ended 2 processes for lack of memory"),
        (HERE, "SIGKILL", 0, ""),
        (HERE, "SIGSEGV", 1, ""),
        ("another-host", "SIGKILL", 1, ""),
    ],
)
def test_memory_is_named_where_this_kernel_ran_out_of_it(
    tmp_path: Path, host: str, signal: str, number: int, explanation: str
) -> None:
    failure = Failure(reason="rank 1 was ended", rank=1, signal=signal)
    reason = with_place(failure, progress(tmp_path, {1: host}), number).reason

    assert explanation in reason
    assert bool(explanation) == ("memory" in reason)


@pytest.mark.parametrize(
    ("counts", "number"), [([3, 5], 2), ([3, 3], 0), ([None, None], 0), ([None, 4], 0)]
)
def test_only_what_happens_from_now_on_counts(
    monkeypatch: pytest.MonkeyPatch, counts: list[int | None], number: int
) -> None:
    remaining = iter(counts)
    monkeypatch.setattr(failure_place, "oom_kills", lambda: next(remaining))

    assert MemoryWatch().num_ended() == number
