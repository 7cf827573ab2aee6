"""Samples of the training thread, sorted into steps and phases of finished steps."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.lines import step_samples as module
from hvdprof.collect.lines.line_window import LineFile
from hvdprof.collect.lines.step_samples import StepSamples, part_times, phase_at
from hvdprof.collect.standing import Moment
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.recording.line_format import CallLine
from hvdprof.rundir.recording.recorder_format import StepLine

MS = 1_000_000
STEP_MS = 50


def step_line(
    number: int,
    start_ms: int,
    length_ms: int = STEP_MS,
    *,
    segment: str = "main",
    warmup: bool = False,
) -> StepLine:
    """A step: 10 ms of data, 20 of forward, backward with a wait of 5 ms at its end, 2 outside."""
    rest = length_ms - 32
    return {
        "kind": "step",
        "segment": segment,
        "step": number,
        "warmup": warmup,
        "start_ns": start_ms * MS,
        "dur_ns": length_ms * MS,
        "samples": 1,
        "phases": [
            ("data", 0, 10 * MS),
            ("forward", 10 * MS, 20 * MS),
            ("backward", 30 * MS, rest * MS),
        ],
        "ready": [],
        "blocked": [((length_ms - 7) * MS, 5 * MS)],
    }


class Rank:
    """A rank whose steps and samples a test makes."""

    def __init__(
        self,
        folder: Path,
        *,
        is_on_host: bool = True,
        room: int = 1_000_000,
        takes_turns: bool = False,
    ) -> None:
        self.path = folder / "rank-0.jsonl"
        self.finished: deque[StepLine] = deque()
        self.at = Moment("main", -1, "", 1)
        self.over: list[CallLine] = []
        names = [("", 0, "", "other", ""), *(("train.py", n, "main", "", "") for n in range(1, 50))]
        file = LineFile(LineWriter(self.path), names, 0, room, 0)
        self.samples = StepSamples(
            file,
            self.finished,
            lambda: self.at,
            self._calls,
            is_on_host=is_on_host,
            takes_turns=takes_turns,
        )

    def _calls(self) -> Iterator[CallLine]:
        while self.over:
            yield self.over.pop(0)

    def sample(self, at_ms: float, place: int) -> None:
        self.samples.thread()
        self.samples.take(round(at_ms * MS), place, 50 * MS, 1000)

    def lines(self, end_ms: int) -> list[Any]:
        self.samples.finish(end_ms * MS)
        return [json.loads(text) for text in self.path.read_text().splitlines()]


def counted(line: Any) -> dict[tuple[str, int], int]:
    """Samples by phase and place."""
    return {(line["phases"][phase][0], place): number for phase, place, number in line["counts"]}


@pytest.mark.parametrize(
    ("at_ms", "phase"),
    [
        *((0, "data"), (9.9, "data"), (10, "forward"), (42, "backward"), (43, "blocked")),
        *((47.9, "blocked"), (48, "outside"), (49.9, "outside")),
    ],
)
def test_a_moment_lies_in_a_phase_of_its_step(at_ms: float, phase: str) -> None:
    assert phase_at(step_line(0, 1000), round((1000 + at_ms) * MS)) == phase


def test_the_times_of_phases_add_up_to_the_step() -> None:
    times = dict(part_times(step_line(0, 1000)))

    assert times == {
        "data": 10 * MS,
        "forward": 20 * MS,
        "backward": 13 * MS,
        "blocked": 5 * MS,
        "outside": 2 * MS,
    }


def test_a_collective_of_the_script_is_blocked_time() -> None:
    line = step_line(0, 0)
    line["phases"] = [("collective", 0, 20 * MS)]
    line["blocked"] = [(0, 20 * MS)]
    assert dict(part_times(line)) == {"blocked": 20 * MS, "outside": 30 * MS}

    line["blocked"] = None
    assert dict(part_times(line)) == {"blocked": 20 * MS, "outside": 30 * MS}
    assert phase_at(line, 5 * MS) == "blocked"


def test_samples_belong_to_the_steps_in_which_they_lie(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.sample(90, 9)
    rank.sample(105, 1)
    rank.sample(115, 2)
    rank.sample(155, 9)
    rank.finished.append(step_line(0, 100))
    rank.sample(162, 1)
    rank.finished.append(step_line(1, 160))
    rank.sample(205, 3)
    between, window = sorted(rank.lines(230), key=lambda line: line["step"])

    assert (between["step"], between["steps"]) == (-1, 0)
    assert counted(between) == {("outside", 9): 1}
    assert (window["step"], window["steps"], window["segment"]) == (0, 2, "main")
    assert (window["start_ns"], window["end_ns"]) == (100 * MS, 210 * MS)
    assert counted(window) == {
        ("data", 1): 2,
        ("forward", 2): 1,
        ("blocked", 3): 1,
        ("outside", 9): 1,
    }
    phases = {name: rest for name, *rest in window["phases"]}
    assert phases["data"] == [2, 20 * MS, 100 * MS, 2000]
    # 2 ms in each step, and 10 ms between them.
    assert phases["outside"] == [1, 14 * MS, 50 * MS, 1000]


def test_a_step_behind_a_long_gap_is_written_singly_with_it(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    now_ms = 0
    for number in range(30):
        gap_ms = 600 if number == 20 else 10
        rank.sample(now_ms + 5, 8)
        now_ms += gap_ms
        rank.finished.append(step_line(number, now_ms))
        now_ms += STEP_MS
    lines = rank.lines(now_ms)
    (single,) = [line for line in lines if line["steps"] == 1]

    assert single["step"] == 20
    assert counted(single) == {("outside", 8): 1}
    assert {name: time_ns for name, _, time_ns, *_ in single["phases"]}["outside"] == 602 * MS


def test_time_between_turns_is_no_time_of_the_job(tmp_path: Path) -> None:
    rank = Rank(tmp_path, takes_turns=True)
    now_ms = 0
    for number in range(30):
        rank.sample(now_ms + 5, 8)
        now_ms += 600 if number == 20 else 10
        rank.finished.append(step_line(number, now_ms))
        now_ms += STEP_MS
    lines = rank.lines(now_ms)

    between = [line for line in lines if line["step"] == -1]
    assert sum(counted(line)["outside", 8] for line in between) == 30
    in_steps = [line for line in lines if line["step"] >= 0]
    assert all(("outside", 8) not in counted(line) for line in in_steps)
    phases = [phase for line in in_steps for phase in line["phases"]]
    assert sum(time_ns for name, _, time_ns, *_ in phases if name == "outside") == 30 * 2 * MS


def test_a_long_step_is_written_singly(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    now_ms = 0
    for number in range(30):
        length_ms = 400 if number in (20, 25) else STEP_MS
        rank.sample(now_ms + 15, 1)
        if number == 20:
            rank.sample(now_ms + 200, 7)
        rank.finished.append(step_line(number, now_ms, length_ms))
        now_ms += length_ms
    lines = rank.lines(now_ms)
    single = [line for line in lines if line["steps"] == 1]

    assert [line["step"] for line in single] == [20, 25]
    assert counted(single[0]) == {("forward", 1): 1, ("backward", 7): 1}
    assert sum(line["steps"] for line in lines) == 30
    assert sum(sum(counted(line).values()) for line in lines) == 31


def test_windows_end_in_time_and_mix_neither_segments_nor_warmup(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    now_ms = 0
    for segment, number, warmup in (("a", 5, True), ("a", 100, False), ("b", 100, False)):
        for step in range(number):
            rank.sample(now_ms + 15, 1)
            rank.finished.append(step_line(step, now_ms, segment=segment, warmup=warmup))
            now_ms += STEP_MS
    windows = [(line["segment"], line["steps"]) for line in rank.lines(now_ms)]

    assert windows == [("a", 5), *[("a", 40)] * 2, ("a", 20), *[("b", 40)] * 2, ("b", 20)]


def test_without_room_windows_stay_open(tmp_path: Path) -> None:
    rank = Rank(tmp_path, room=1500)
    for step in range(1000):
        rank.sample(step * STEP_MS + 15, 1 + step % 40)
        rank.finished.append(step_line(step, step * STEP_MS))
    lines = rank.lines(1000 * STEP_MS)

    assert sum(line["steps"] for line in lines) == 1000
    assert sum(sum(counted(line).values()) for line in lines) == 1000
    assert len(lines) <= 5
    assert rank.path.stat().st_size <= 1500 + 4096


def test_on_a_gpu_the_phase_is_that_of_the_thread(tmp_path: Path) -> None:
    rank = Rank(tmp_path, is_on_host=False)
    for step, phase, at_ms in (
        (-1, "", 90),
        (0, "forward", 100),
        (0, "blocked", 101),
        (1, "", 102),
    ):
        rank.at = Moment("main", step, phase, 1)
        rank.sample(at_ms, 1)
    rank.finished.append(step_line(0, 500))
    rank.finished.append(step_line(1, 550))
    between, window = sorted(rank.lines(600), key=lambda line: line["step"])

    assert counted(between) == {("outside", 1): 1}
    assert counted(window) == {("forward", 1): 1, ("blocked", 1): 1, ("outside", 1): 1}
    assert all(time_ns == 0 for _, _, time_ns, _, _ in window["phases"])


def test_a_step_without_end_is_bounded_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 10)
    rank = Rank(tmp_path)
    rank.at = Moment("main", 0, "data", 1)
    for number in range(100):
        rank.sample(number, 1)
    assert len(rank.samples._pending) == 10
    rank.finished.append(step_line(0, 0, 200))
    (window,) = rank.lines(200)

    assert sum(counted(window).values()) == 100
    assert counted(window)["data", 1] == 90


def test_samples_after_the_last_step_and_calls_are_written(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.sample(15, 1)
    rank.finished.append(step_line(0, 0))
    rank.sample(70, 4)
    rank.over.append(
        {
            "kind": "call",
            "name": "torch.save",
            "segment": "main",
            "step": -1,
            "start_ns": 60 * MS,
            "dur_ns": 9 * MS,
            "file": "train.py",
            "line": 4,
            "detail": "model.pt",
        }
    )
    lines = rank.lines(80)

    assert [line["kind"] for line in lines] == ["call", "lines", "lines"]
    assert [line["step"] for line in lines[1:]] == [0, -1]
    assert counted(lines[2]) == {("outside", 4): 1}
