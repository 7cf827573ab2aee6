import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.standing import IN_LOOP, LoopStanding, Standing, Watched
from hvdprof.collect.watchdog import STALL_WARN, Watchdog, watch_over
from hvdprof.rundir.layout import PassPaths

WAITING = Standing(segment="main", step=4, is_open=True, waits=True, ready=["a"], missing=["b"])


class Rank:
    """A rank whose state and clock a test sets."""

    def __init__(self, folder: Path) -> None:
        self.paths = PassPaths(folder)
        self.standing = Standing(segment="main", step=3)
        self.loop = LoopStanding()
        self.now_s = 100.0
        self.num_at_rest = 0
        self.dog = Watchdog(self.watched(), self.paths, 1, 10.0, lambda: self.now_s)

    def watched(self) -> Watched:
        return Watched(lambda: self.standing, self.at_rest, lambda: self.loop)

    def at_rest(self) -> None:
        self.num_at_rest += 1

    def look(self, now_s: float) -> bool:
        self.now_s = now_s
        return self.dog.look()

    def reported(self) -> dict[str, Any]:
        return dict(json.loads(self.paths.watch_file(1).read_text()))


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path)


def test_a_rank_that_makes_progress_writes_once_and_then_nothing(rank: Rank) -> None:
    for second in range(60):
        rank.standing = replace(rank.standing, step=second)
        assert rank.look(100.0 + second)
    assert rank.reported()["beat"] == 1
    assert not rank.paths.stack_file(1).exists()


def test_a_rank_at_rest_is_asked_to_write_at_once(rank: Rank) -> None:
    rank.look(100.0)
    rank.standing = WAITING
    rank.look(101.0)
    assert rank.num_at_rest == 0
    rank.look(102.0)
    assert rank.num_at_rest == 1


def test_a_stalled_rank_names_the_place_and_shows_its_stack(rank: Rank) -> None:
    rank.look(100.0)
    rank.standing = WAITING
    rank.look(101.0)
    rank.look(110.9)
    assert rank.reported()["still_s"] == 0
    rank.look(111.0)
    reported = rank.reported()
    assert reported["still_s"] == 10.0
    assert [reported[key] for key in ("step", "waits", "ready", "missing")] == [
        4,
        True,
        ["a"],
        ["b"],
    ]
    assert "test_watchdog.py" in rank.paths.stack_file(1).read_text()
    rank.look(112.0)
    assert rank.reported()["beat"] == reported["beat"]
    rank.look(114.0)
    assert rank.reported()["still_s"] == 13.0


def test_a_rank_that_makes_progress_again_withdraws_its_stall(rank: Rank) -> None:
    for second in (100.0, 111.0):
        rank.look(second)
    assert rank.reported()["still_s"] == 11.0
    rank.standing = WAITING
    rank.look(112.0)
    assert rank.reported()["still_s"] == 0.0


def hurry(rank: Rank, *, step_s: float, num_steps: int = 30, still_after_s: float = 48.0) -> float:
    """Looks once a second at steps of that length; the time of the last one."""
    paths = rank.paths
    rank.dog = Watchdog(rank.watched(), paths, 1, still_after_s, lambda: rank.now_s)
    for second in range(int(num_steps * step_s) + 1):
        rank.standing = Standing(segment="main", step=int(second / step_s), is_open=True)
        rank.look(100.0 + second)
    return rank.now_s


def seconds_to_report(rank: Rank, since_s: float, change: str = "") -> float:
    """Seconds without the end of a step until the rank writes its state."""
    for second in range(1, 120):
        if change:
            rank.standing = replace(rank.standing, **{change: f"{change} {second}"})
        rank.look(since_s + second)
        if rank.reported()["in_step_s"]:
            return second
    raise AssertionError("it reports nothing")


@pytest.mark.parametrize(("step_s", "after_s"), [(0.01, 5), (0.3, 6), (2.0, 8)])
def test_a_rank_whose_steps_are_short_is_missed_early(
    rank: Rank, step_s: float, after_s: float
) -> None:
    """Long before the 48 s of a warning after 60 s: the job may be ended until then."""
    since_s = hurry(rank, step_s=step_s, num_steps=int(30 / step_s))
    assert seconds_to_report(rank, since_s) == pytest.approx(after_s, abs=1)
    assert "test_watchdog.py" in rank.paths.stack_file(1).read_text()
    assert rank.reported()["still_s"] > 0


def test_a_step_that_takes_much_longer_than_usual_is_reported_though_it_goes_on(rank: Rank) -> None:
    since_s = hurry(rank, step_s=1.0)
    assert seconds_to_report(rank, since_s, change="phase") == pytest.approx(20, abs=1)
    assert rank.reported()["still_s"] == 0.0
    assert rank.reported()["phase"].startswith("phase ")
    rank.standing = replace(rank.standing, step=31)
    rank.look(rank.now_s + 1)
    assert [rank.reported()[key] for key in ("still_s", "in_step_s")] == [0.0, 0.0]


def test_a_process_that_was_stopped_between_turns_is_not_blocked(rank: Rank) -> None:
    since_s = hurry(rank, step_s=0.01, num_steps=1000)
    rank.look(since_s + 40)
    assert rank.reported()["in_step_s"] == 0
    # It counts from there on.
    for second in range(41, 46):
        rank.look(since_s + second)
    assert rank.reported()["still_s"] == 45.0


def test_a_rank_reports_the_same_stall_now_and_then(rank: Rank) -> None:
    since_s = hurry(rank, step_s=0.01, num_steps=1000)
    beats = set()
    for second in range(1, 31):
        rank.look(since_s + second)
        beats.add(rank.reported()["beat"])
    assert len(beats) == 1 + len(range(5, 31, 5))


def test_the_end_of_the_recording_is_reported_and_ends_the_watch(rank: Rank) -> None:
    rank.look(100.0)
    rank.standing = Standing(ended=True)
    assert not rank.look(101.0)
    assert rank.reported()["ended"]


def test_the_end_of_the_process_is_written_with_the_place_in_the_loop(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank.look(100.0)
    rank.standing = WAITING
    rank.loop = LoopStanding(loop=IN_LOOP, num_updates=40, num_epochs=1)
    rank.dog.close()
    reported = rank.reported()
    assert [reported[key] for key in ("ended", "failed", "waits")] == [True, False, False]
    assert [reported[key] for key in ("loop", "num_updates", "num_epochs")] == [IN_LOOP, 40, 1]
    monkeypatch.setattr("sys.last_value", ValueError("bad batch"), raising=False)
    rank.dog.close()
    assert rank.reported()["failed"]


@pytest.mark.parametrize("value", [None, "0", "soon", "-1", "inf", "nan"])
def test_no_watchdog_runs_unless_requested(tmp_path: Path, value: str | None) -> None:
    environment = {} if value is None else {STALL_WARN: value}
    watch_over(Watched(Standing), tmp_path / "recorder", 0, environment=environment)
    time.sleep(0.05)
    assert not (tmp_path / "watch").exists()


def test_the_watchdog_thread_writes_progress_and_the_end_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    states = [Standing(ended=True)]
    watch_over(Watched(lambda: states[0]), tmp_path / "recorder", 0, environment={STALL_WARN: "5"})
    path = PassPaths(tmp_path).watch_file(0)
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert json.loads(path.read_text())["ended"]
    (close,) = at_exit
    path.unlink()
    close()
    assert json.loads(path.read_text())["ended"]


def test_a_system_without_another_thread_is_reported_and_does_not_stop_the_script(
    tmp_path, monkeypatch, capsys
):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", none_left)
    watch_over(Watched(Standing), tmp_path / "recorder", 0, environment={STALL_WARN: "10"})
    assert "stall reporting disabled: can't start new thread" in capsys.readouterr().err


def test_what_fails_within_the_watch_is_reported_in_one_line(tmp_path, capsys):
    def broken():
        raise ValueError("odd name of a tensor")

    before = set(threading.enumerate())
    watch_over(Watched(broken), tmp_path / "recorder", 0, environment={STALL_WARN: "10"})
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    error = capsys.readouterr().err
    assert "stall reporting disabled: ValueError: odd name of a tensor" in error
    assert error.count("\n") == 1
