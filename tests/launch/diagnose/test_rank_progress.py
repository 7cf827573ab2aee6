""""""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.host_facts import boot_id, pid_namespace
from hvdprof.launch.diagnose.rank_progress import (
    EXITED_GRACE_S,
    PassProgress,
    RankProcesses,
    RankState,
)
from hvdprof.launch.processes.marked_processes import process_name, state_letter
from hvdprof.rundir.layout import PassPaths


def _append(paths: PassPaths, rank: int, *lines: Any, end: str = "\n") -> None:
    paths.recorder_folder.mkdir(parents=True, exist_ok=True)
    with paths.recorder_file(rank).open("a") as file:
        file.write("\n".join(json.dumps(line) for line in lines) + end)


def test_files_are_read_as_they_grow(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    assert progress.update() == 0
    _append(paths, 0, {"kind": "header", "rank": 0}, {"kind": "segment", "id": "a"})
    first = progress.update()
    assert progress.ranks[0].segment == "a"
    _append(paths, 0, {"kind": "step", "step": 0}, {"kind": "step", "step": 1})
    assert progress.update() > first
    assert progress.ranks[0].num_steps == 2
    _append(paths, 0, {"kind": "segment_end", "id": "a"}, {"kind": "end"})
    progress.update()
    state = progress.ranks[0]
    assert (state.segment, state.ended, state.finished) == (None, {"a"}, True)


def test_a_line_that_is_half_written_waits_for_its_rest(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    line = json.dumps({"kind": "segment", "id": "a"})
    paths.recorder_folder.mkdir()
    file = paths.recorder_file(0)
    file.write_text(line[:12])
    progress.update()
    assert progress.ranks[0].segment is None
    file.write_text(line + "\n")
    progress.update()
    assert progress.ranks[0].segment == "a"


def test_compact_step_lines_count_too(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    paths.recorder_file(0).write_text('{"kind":"step","segment":"a","step":0}\n')
    progress = PassProgress(paths)
    progress.update()
    assert progress.ranks[0].num_steps == 1


def test_a_segment_has_ended_when_every_rank_says_so(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    for rank in (0, 1):
        _append(paths, rank, {"kind": "segment", "id": "a"}, {"kind": "segment_end", "id": "a"})
    _append(paths, 0, {"kind": "segment", "id": "b"}, {"kind": "segment_end", "id": "b"})
    _append(paths, 1, {"kind": "segment", "id": "b"})
    progress.update()
    assert progress.ended_segments(2) == {"a"}
    assert progress.ended_segments(3) == set()


def test_damage_is_remembered_and_skipped(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    paths.recorder_file(0).write_bytes(b'\x00\x00\n[1]\n{"kind": "segment", "id": "a"}\n')
    progress = PassProgress(paths)
    progress.update()
    assert progress.ranks[0].segment == "a"
    assert len(progress.ranks[0].problems) == 2


def test_a_file_that_cannot_be_read_just_now_is_read_at_the_next_look(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    in_the_way = paths.recorder_file(0)
    in_the_way.mkdir(parents=True)
    assert progress.update() == 0
    in_the_way.rmdir()
    _append(paths, 0, {"kind": "segment", "id": "a"})
    assert progress.update() > 0
    assert progress.ranks[0].segment == "a"


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


@pytest.mark.parametrize(
    ("boot", "namespace", "exited"),
    [
        (boot_id(), pid_namespace(), True),
        ("another", pid_namespace(), False),
        (boot_id(), "pid:[1]", False),
    ],
    ids=["here", "another host of this name", "a container beside this one"],
)
def test_processes_that_ended_between_two_looks_have_exited(
    two_ranks: Ranks, boot: str, namespace: str, exited: bool
) -> None:
    for rank, state in two_ranks.states.items():
        two_ranks.exit(rank)
        state.header["host"]["boot_id"] = boot
        state.header["pid_namespace"] = namespace
    assert not two_ranks.look(0.0)
    assert two_ranks.look(EXITED_GRACE_S) is exited


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
