"""Ranks that have exited, and ranks that a signal has stopped."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from hvdprof.launch.diagnose.rank_processes import EXITED_GRACE_S, RankProcesses
from hvdprof.launch.diagnose.rank_progress import RankState
from hvdprof.launch.processes.process_state import process_name, state_letter


class Ranks:
    """Processes that stand for ranks, and a clock that a test sets."""

    def __init__(self, size: int) -> None:
        self.now_s = 0.0
        self.processes = [subprocess.Popen(["sleep", "600"]) for _ in range(size)]
        self.states = {rank: self.state(rank, socket.gethostname()) for rank in range(size)}
        self.watch = RankProcesses(size, lambda: self.now_s)

    def state(self, rank: int, host: str) -> RankState:
        header = {"pid": self.processes[rank].pid, "host": {"hostname": host}}
        return RankState(rank, header=header)

    def look(self, at_s: float) -> bool:
        self.now_s = at_s
        self.watch.look(self.states)
        return self.watch.have_exited

    def exit(self, rank: int) -> None:
        self.processes[rank].kill()
        self.processes[rank].wait()

    def stop(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.processes[rank].pid, os.WSTOPPED)

    def resume(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, self.processes[rank].pid, os.WCONTINUED)


@pytest.fixture
def two_ranks() -> Iterator[Ranks]:
    ranks = Ranks(2)
    yield ranks
    for process in ranks.processes:
        process.kill()
        process.wait()


def test_ranks_have_exited_a_grace_time_after_the_last_one(two_ranks: Ranks) -> None:
    assert not two_ranks.look(0.0)
    two_ranks.exit(0)
    assert not two_ranks.look(100.0)
    two_ranks.exit(1)
    assert not two_ranks.look(101.0)
    assert not two_ranks.look(101.0 + 0.9 * EXITED_GRACE_S)
    assert two_ranks.look(101.0 + EXITED_GRACE_S)


def test_a_rank_that_waits_to_be_reaped_has_exited(two_ranks: Ranks) -> None:
    two_ranks.look(0.0)
    for process in two_ranks.processes:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    two_ranks.look(1.0)
    assert two_ranks.look(1.0 + EXITED_GRACE_S)


def test_processes_that_were_never_seen_here_say_nothing(two_ranks: Ranks) -> None:
    two_ranks.exit(0)
    two_ranks.exit(1)
    two_ranks.look(0.0)
    assert not two_ranks.look(1000.0)


def test_a_rank_on_another_host_or_without_a_recording_keeps_the_launch(two_ranks: Ranks) -> None:
    two_ranks.states[1] = two_ranks.state(1, "elsewhere")
    two_ranks.look(0.0)
    two_ranks.exit(0)
    two_ranks.look(1.0)
    assert not two_ranks.look(1000.0)
    del two_ranks.states[1]
    two_ranks.look(1001.0)
    assert not two_ranks.look(2000.0)


def test_the_longest_stop_of_a_rank_counts_while_another_one_runs(two_ranks: Ranks) -> None:
    two_ranks.stop(1)
    two_ranks.look(0.0)
    two_ranks.look(31.0)
    two_ranks.resume(1)
    two_ranks.look(31.5)
    two_ranks.stop(1)
    two_ranks.look(40.0)
    two_ranks.look(45.0)
    assert two_ranks.watch.stopped_s == {1: 31.0}


def test_a_launch_that_is_stopped_as_a_whole_has_no_stopped_rank(two_ranks: Ranks) -> None:
    two_ranks.stop(0)
    two_ranks.stop(1)
    two_ranks.look(0.0)
    two_ranks.look(100.0)
    assert two_ranks.watch.stopped_s == {}


def test_a_process_that_is_gone_has_no_state_and_no_name() -> None:
    process = subprocess.Popen(["sleep", "600"])
    assert state_letter(process.pid) in {"S", "R", "D"}
    process.kill()
    process.wait()
    assert (state_letter(process.pid), process_name(process.pid)) == ("", "")
    assert process_name(os.getpid())
