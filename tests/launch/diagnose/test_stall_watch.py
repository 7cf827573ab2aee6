import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from hvdprof.launch.diagnose.rank_standings import training_stack
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.stall_watch import StallWatch
from hvdprof.rundir.failures.launcher_failures import FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.stall_format import (
    RankWaitRecord,
    StalledRankRecord,
    StallLine,
    StallOverLine,
    UnequalRecord,
)
from tests.builders.stalls import stall_at_end

STACK = """\
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f02 (most recent call first):
  File "/p/hvdprof/collect/watchdog.py", line 130 in _dump_stacks

Thread 0x00007f03 (most recent call first):
  File "/v/site-packages/torch/serialization.py", line 850 in save
  File "/p/train.py", line 12 in <module>
"""


class Ranks:
    """The files of ranks, written by a test."""

    def __init__(self, folder: Path) -> None:
        self.paths = PassPaths(folder)
        self.paths.watch_folder.mkdir()

    def say(self, rank: int, **values: Any) -> None:
        state = {
            "rank": rank,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "beat": 2,
            "still_s": 20.0,
            "in_step_s": 0.0,
            "segment": "main",
            "step": 7,
            "is_open": True,
            "waits": False,
            "collective": "",
            "phase": "",
            "ready": [],
            "missing": [],
            "ended": False,
            "failed": False,
            "loop": "",
            "num_updates": 0,
            "num_epochs": 0,
        }
        self.paths.watch_file(rank).write_text(json.dumps(state | values))

    def watch(self, size: int, seen: list[Stall], kill_s: float | None = None) -> StallWatch:
        return StallWatch(self.paths, size, warn_s=10.0, kill_s=kill_s, on_stall=seen.append)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def test_a_stall_is_reported_once_with_tensors_and_stack(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(3, seen)
    ranks.say(0, waits=True, ready=["a", "b", "c"], phase="optimizer")
    ranks.say(1, phase="backward", ready=["c"], missing=["a", "b"])
    ranks.say(2, waits=True, ready=["a", "b", "c"])
    ranks.paths.stack_file(1).write_text(STACK)
    for _ in range(3):
        watch.look()
    (stall,) = seen
    assert (stall.step, stall.waiting) == (7, [0, 2])
    assert [(one.rank, one.state, one.tensors) for one in stall.late] == [(1, "runs", ["a", "b"])]
    began = time.strftime("%H:%M:%S", time.gmtime(stall.time_ns / 1e9 - 20.0))
    here = socket.gethostname()
    assert stall.lines() == [
        f"stall at step 7 since {began}: ranks 0 and 2 have been waiting 20.0 s for rank 1 on "
        f"{here} (in backward of step 7 at train.py:12; has not submitted a, b)",
        f"to do: rank 1 on {here}: write the checkpoint less often, asynchronously, or to faster "
        f"storage: the other ranks wait for it. Live: `py-spy dump --pid {os.getpid()}` on {here}.",
        "stack of rank 1, innermost first:",
        "  /v/site-packages/torch/serialization.py:850 save",
        "  /p/train.py:12 <module>",
    ]
    assert not watch.must_end
    assert watch.failure() is None


def test_a_rank_in_an_earlier_step_lacks_everything(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, ready=["a", "b"])
    ranks.say(1, step=6, phase="data", ready=["a", "b"])
    ranks.watch(2, seen).look()
    assert seen[0].late[0].tensors == ["a", "b"]
    assert "(in data of step 6; has not submitted a, b)" in seen[0].sentence()


def test_ranks_that_all_pause_are_no_stall(ranks: Ranks) -> None:
    seen: list[Stall] = []
    for rank in range(2):
        ranks.say(rank, phase="data", still_s=900.0)
    ranks.watch(2, seen).look()
    assert seen == []
    assert not ranks.paths.stalls.exists()


def test_short_waits_are_no_stall(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, still_s=9.9)
    ranks.say(1, phase="backward")
    ranks.watch(2, seen).look()
    assert seen == []


def test_where_all_ranks_wait_the_collective_is_hung(ranks: Ranks) -> None:
    seen: list[Stall] = []
    for rank in range(2):
        ranks.say(rank, waits=True, ready=["a"])
    ranks.watch(2, seen).look()
    assert seen[0].late == []
    assert (
        seen[0]
        .sentence()
        .endswith("ranks 0 and 1 have been waiting 20.0 s; the collective is hung")
    )
    assert "hvdprof net" in seen[0].lines()[1]


def _stack_of(line: int) -> str:
    return (
        "Thread 0x00007f03 (most recent call first):\n"
        '  File "/venv/lib/python3.11/site-packages/horovod/torch/mpi_ops.py", line 960 in wait\n'
        '  File "/repo/hvdprof/collect/auto/autorecord.py", line 280 in waiting\n'
        f'  File "/home/me/train.py", line {line} in main\n'
        '  File "/home/me/train.py", line 90 in <module>\n'
    )


def test_ranks_that_wait_in_different_collectives_are_named_with_both(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, collective="allreduce loss", ready=["a", "b"])
    ranks.say(1, waits=True, collective="allgather metrics", ready=["a"])
    ranks.paths.stack_file(0).write_text(_stack_of(31))
    ranks.paths.stack_file(1).write_text(_stack_of(35))
    ranks.watch(2, seen).look()
    (stall,) = seen
    assert stall.late == []
    assert stall.sentence().endswith(
        "ranks 0 and 1 have been waiting 20.0 s in different collectives: "
        "rank 0 in allreduce loss at train.py:31 with b; "
        "rank 1 in allgather metrics at train.py:35"
    )
    assert "same collectives in the same order" in stall.lines()[1]
    (line, *_) = map(json.loads, ranks.paths.stalls.read_text().splitlines())
    assert [(one["rank"], one["collective"], one["tensors"]) for one in line["waits"]] == [
        (0, "allreduce loss", ["b"]),
        (1, "allgather metrics", []),
    ]
    assert line["waits"][0].keys() == get_type_hints(RankWaitRecord).keys()


def test_ranks_that_wait_in_different_steps_are_named_with_their_steps(ranks: Ranks) -> None:
    seen: list[Stall] = []
    for rank, step in enumerate((7, 8, 7)):
        ranks.say(rank, waits=True, step=step, collective="allreduce loss", ready=["a"])
    ranks.watch(3, seen).look()
    assert (
        seen[0]
        .sentence()
        .endswith("ranks 0 and 2 in allreduce loss in step 7; rank 1 in allreduce loss in step 8")
    )


def test_one_line_of_the_script_without_names_is_one_collective(ranks: Ranks) -> None:
    seen: list[Stall] = []
    for rank in range(2):
        ranks.say(rank, waits=True, collective="allreduce", ready=["a"])
        ranks.paths.stack_file(rank).write_text(_stack_of(31))
    ranks.watch(2, seen).look()
    assert seen[0].sentence().endswith("the collective is hung")


def test_a_silent_stalled_rank_is_reported_later_by_its_process(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, ready=["a"], still_s=10.5)
    ranks.say(1, still_s=0.0)
    watch = ranks.watch(2, seen)
    watch.look()
    assert seen == []
    ranks.say(0, waits=True, ready=["a"], still_s=14.0)
    watch.look()
    assert seen[0].late[0].state == "silent"


def test_a_process_that_is_gone_stopped_or_not_there_is_named(ranks: Ranks) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    seen: list[Stall] = []
    ranks.say(0, waits=True, ready=["a"])
    ranks.say(1, still_s=0.0, pid=ended.pid)
    ranks.say(2, ended=True)
    ranks.watch(4, seen).look()
    assert [one.state for one in seen[0].late] == ["gone", "ended", "absent"]
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        os.kill(sleeping.pid, 19)
        os.waitid(os.P_PID, sleeping.pid, os.WSTOPPED)
        ranks.say(1, still_s=0.0, pid=sleeping.pid)
        ranks.watch(2, seen).look()
        assert seen[1].late[0].state == "stopped"
    finally:
        sleeping.kill()
        sleeping.wait()


def test_a_stall_that_is_over_is_written_and_the_next_one_reported(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    ranks.say(0, waits=True)
    ranks.say(1, phase="data")
    watch.look()
    ranks.say(0, step=8, still_s=0.0)
    watch.look()
    ranks.say(0, step=9, waits=True)
    watch.look()
    watch.finish()
    assert [stall.step for stall in seen] == [7, 9]
    records = [json.loads(line) for line in ranks.paths.stalls.read_text().splitlines()]
    assert [(one["kind"], one["number"]) for one in records] == [
        *(("stall", 0), ("over", 0)),
        *(("stall", 1), ("over", 1)),
    ]
    assert records[1]["lasted_s"] >= 20.0
    assert records[0].keys() == get_type_hints(StallLine).keys()
    assert records[0]["late"][0].keys() == get_type_hints(StalledRankRecord).keys()
    assert records[1].keys() == get_type_hints(StallOverLine).keys()


def test_a_stall_that_lasts_ends_the_pass_and_says_why(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(2, seen, kill_s=15.0)
    ranks.say(0, waits=True, ready=["a"])
    ranks.say(1, phase="forward")
    ranks.paths.stack_file(1).write_text(STACK)
    watch.look()
    assert watch.must_end
    failure = watch.failure()
    assert failure is not None
    assert failure.rank == 1
    assert failure.reason.startswith("ended by --stall-kill: stall at step 7 since ")
    assert failure.kind == FailureKind.STALLED
    assert "rank 0 has been waiting 20.0 s for rank 1 on" in failure.reason
    assert failure.lines[0].startswith("to do: rank 1")
    assert failure.lines[2] == "  /v/site-packages/torch/serialization.py:850 save"


@pytest.mark.parametrize("waits", [False, True])
def test_a_rank_with_fewer_batches_is_named_as_such(ranks: Ranks, waits: bool) -> None:
    """Also where it waits in another collective behind its loop."""
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    ranks.say(0, waits=True, ready=["a"], loop="inside", num_updates=40)
    ranks.say(1, waits=waits, collective="barrier", loop="left", num_updates=40, num_epochs=1)
    ranks.paths.stack_file(1).write_text(STACK)
    watch.look()
    (stall,) = seen
    assert [(one.rank, one.state) for one in stall.late] == [(1, "left")]
    here = socket.gethostname()
    assert stall.sentence().endswith(
        f": unequal numbers of batches per rank: rank 1 on {here} (behind the loop at "
        "train.py:12) has ended the training loop after 40 steps, rank 0 has been waiting 20.0 s "
        "in step 41"
    )
    assert stall.action().startswith("give every rank as many batches: drop_last=True")
    assert "hvd.join()" in stall.action()
    (line,) = map(json.loads, ranks.paths.stalls.read_text().splitlines())
    assert line["unequal"] == {"ended": [1], "num_steps": 40, "waiting": [0], "step": 41}
    assert line["unequal"].keys() == get_type_hints(UnequalRecord).keys()


def cut_off(ranks: Ranks, seen: list[Stall], size: int = 2) -> Stall | None:
    """The stall at the end of a job, after one look."""
    watch = ranks.watch(size, seen)
    watch.look()
    assert seen == []
    stall = watch.cut_off()
    watch.report_cut_off()
    watch.finish()
    return stall


def test_a_job_that_ends_before_the_warning_reports_who_waited_for_whom(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, ready=["a"], still_s=6.0)
    ranks.say(1, phase="data", still_s=6.0)
    ranks.paths.stack_file(1).write_text(STACK)
    stall = cut_off(ranks, seen)
    assert [stall] == seen
    assert stall is not None
    sentence, action, *stack = stall.lines()
    assert " until the job ended: rank 0 waited 6.00 s for rank 1 on " in sentence
    assert "(in data of step 7 at train.py:12; has not submitted a)" in sentence
    # There is no process any more to look at.
    assert "write the checkpoint less often" in action
    assert "py-spy" not in action
    assert stack[-1] == "  /p/train.py:12 <module>"
    records = [json.loads(line) for line in ranks.paths.stalls.read_text().splitlines()]
    assert [(one["kind"], one["at_end"]) for one in records] == [("stall", True), ("over", True)]


def test_a_stall_that_was_reported_before_is_not_reported_again_at_the_end(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    ranks.say(0, waits=True)
    ranks.say(1, phase="data")
    watch.look()
    assert len(seen) == 1
    watch.report_cut_off()
    watch.finish()
    assert len(seen) == 1
    kinds = [json.loads(line)["kind"] for line in ranks.paths.stalls.read_text().splitlines()]
    assert kinds == ["stall", "over"]
    assert '"at_end": true' in ranks.paths.stalls.read_text()


@pytest.mark.parametrize("values", [{"still_s": 3.0}, {"still_s": 0.0}, {"waits": False}])
def test_a_job_that_ends_without_a_long_wait_has_no_stall(ranks: Ranks, values: Any) -> None:
    seen: list[Stall] = []
    ranks.say(0, **{"waits": True, "still_s": 6.0, **values})
    ranks.say(1, phase="data", still_s=6.0)
    assert cut_off(ranks, seen) is None
    assert seen == []
    assert not ranks.paths.stalls.exists()


def test_a_wait_that_was_over_before_the_end_is_no_stall(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    ranks.say(0, waits=True, still_s=6.0)
    ranks.say(1, phase="data", still_s=6.0)
    watch.look()
    ranks.say(0, step=8, still_s=0.0)
    watch.look()
    assert watch.cut_off() is None


def test_a_stall_that_was_written_since_the_last_look_is_seen(ranks: Ranks) -> None:
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    watch.look()
    ranks.say(0, waits=True, still_s=8.0)
    ranks.say(1, phase="data", still_s=8.0)
    watch.report_cut_off()
    assert [stall.late_rank for stall in seen] == [1]


def test_a_rank_that_raises_leaves_the_stall_as_it_was(ranks: Ranks) -> None:
    """Its collective has timed out; the end of its recording is a consequence."""
    seen: list[Stall] = []
    watch = ranks.watch(2, seen)
    ranks.say(0, waits=True, still_s=6.0)
    ranks.say(1, phase="data", still_s=6.0)
    watch.look()
    ranks.say(0, ended=True, failed=True, still_s=0.0)
    watch.look()
    stall = watch.cut_off()
    assert stall is not None
    assert (stall.waiting, stall.late_rank) == ([0], 1)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("gone", "read the last lines of rank 1 in stderr.txt"),
        ("stopped", "look for what sent SIGSTOP to rank 1"),
        ("silent", "look at rank 1 while it hangs"),
    ],
)
def test_no_action_at_the_end_needs_the_process(state: str, words: str) -> None:
    rank = StalledRank(rank=1, state=state, step=7, phase="", tensors=[], host="node3", pid=41)
    stall = stall_at_end(rank, 60.0)
    assert words in stall.action()
    assert "41" not in stall.action()


@pytest.mark.parametrize("unknown", [{"host": ""}, {"pid": None}])
@pytest.mark.parametrize("state", ["runs", "silent", "stopped"])
def test_a_command_names_a_process_that_is_known(state: str, unknown: dict[str, Any]) -> None:
    known: dict[str, Any] = {"host": "node3", "pid": 41}
    values: dict[str, Any] = {"rank": 1, "state": state, "step": 7, "phase": "", "tensors": []}
    assert "41` on node3" in StalledRank(**values, **known).action()
    action = StalledRank(**values, **(known | unknown)).action()
    assert action
    assert "`" not in action


def test_files_that_are_not_readable_are_passed_over(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.paths.watch_file(0).write_text('{"rank": 0, "wai')
    ranks.watch(2, seen).look()
    assert seen == []
    assert training_stack(ranks.paths.stack_file(5)) == []


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("runs", ("in backward of step 7", "py-spy dump --pid 41` on node3")),
        ("ended", ("has ended its recording", "unequal numbers of batches")),
        ("absent", ("has not begun to record", "check that rank 1 started")),
        ("gone", ("has ended", "stderr.txt of the pass has the last lines of rank 1")),
        ("stopped", ("was stopped by a signal", "`kill -CONT 41` on node3")),
        ("silent", ("still running, or not in Python", "py-spy dump --pid 41` on node3")),
    ],
)
def test_each_state_of_a_stalled_rank_has_its_action(state: str, words: tuple[str, str]) -> None:
    rank = StalledRank(
        rank=1, state=state, step=7, phase="backward", tensors=["a"], host="node3", pid=41
    )
    stall = Stall(
        number=0, segment="main", step=7, time_ns=0, waited_s=60.0, waiting=[0], late=[rank]
    )
    first, second = stall.lines()
    assert f"for rank 1 on node3 ({words[0]}; has not submitted a)" in first
    assert words[1] in second


def test_long_lists_of_ranks_and_tensors_are_cut(ranks: Ranks) -> None:
    seen: list[Stall] = []
    ranks.say(0, waits=True, ready=list("abcdefgh"))
    ranks.watch(20, seen).look()
    sentence = seen[0].sentence()
    assert "a, b, c, d, e and 3 more" in sentence
    assert sentence.count("has not begun to record") == 8
    assert sentence.endswith(" and 11 more")
