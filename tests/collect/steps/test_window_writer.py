"""Light recordings: one line per window, bounded in bytes for steps of any length."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_sums import (
    LONGEST_NS,
    allowed_bytes,
    next_length,
    power_of_two_below,
    target_ns,
)
from hvdprof.collect.steps.window_writer import MOST_VALUES, Lengths, WindowWriter
from hvdprof.rundir.recording.recorder_format import WAIT_KINDS
from tests.builders.recorded import KEYS, of_kind, recorded

MS = 1_000_000
HOUR_NS = 3_600_000 * MS
BOUND = 1_000_000


class Light:
    """A recorder file, and steps one after the other."""

    def __init__(self, folder: Path) -> None:
        self.file = LineWriter(folder / "rank-0.jsonl")
        self.file.write({"kind": "header", **dict.fromkeys(KEYS["header"])})
        self.reported: list[str] = []
        self.writer = WindowWriter(self.file, self.reported.append)
        self.now_ns = self.step = 0

    def train(self, num_steps: int, length_ns: int, **values: Any) -> None:
        for _ in range(num_steps):
            wait = length_ns // 4
            line = {"kind": "step", "segment": "main", "step": self.step, "warmup": False}
            line |= {"start_ns": self.now_ns, "dur_ns": length_ns, "samples": 8, "ready": []}
            line |= {
                "phases": [("forward", 0, wait), ("backward", wait, wait)],
                "blocked": [(2 * wait, wait)],
            }
            self.writer.add(line | values)
            self.step += 1
            self.now_ns += length_ns

    @property
    def windows(self) -> list[dict[str, Any]]:
        return of_kind(recorded(self.file.path), "window")


@pytest.fixture
def light(tmp_path: Path) -> Light:
    return Light(tmp_path)


def test_a_window_sums_up_its_steps(light: Light) -> None:
    for length in (8, 12, 8, 40):
        light.train(1, length * MS, loss=float(length))
    light.writer.flush()
    first, *_, last = light.windows
    assert (first["step"], first["num_steps"]) == (0, 1)
    assert last["last_step"] == 3
    assert sum(one["num_steps"] for one in light.windows) == 4
    assert last["lengths"][0] == sum((12, 8, 40)) * MS
    assert last["lengths"][1] == 12 * MS
    assert last["lengths"][3] == 40 * MS
    assert last["parts"]["forward"][0] == 15 * MS
    assert last["parts"]["blocked"] == [15 * MS, 3 * MS, 10 * MS, 10 * MS]
    assert last["waits"] == [["grad_reduce", 3, 30 * MS, 15 * MS, 0]]
    assert last["after_ns"] == 15 * MS
    assert last["longest"] == [3, 40 * MS, 10 * MS, "forward", 10 * MS]
    assert last["loss"] == pytest.approx(20.0)
    assert (last["start_ns"], last["end_ns"]) == (8 * MS, 68 * MS)


def test_unknown_waits_make_those_of_the_window_unknown(light: Light) -> None:
    light.train(1, 5 * MS)
    light.train(3, 5 * MS)
    light.train(1, 5 * MS, blocked=None)
    light.writer.flush()
    last = light.windows[-1]
    assert last["waits"] is None
    assert "blocked" not in last["parts"]


def test_windows_end_at_multiples_of_powers_of_two(light: Light) -> None:
    light.train(400, 20 * MS)
    for window in light.windows[1:]:
        length = window["last_step"] + 1 - window["step"]
        assert (window["last_step"] + 1) % power_of_two_below(length) == 0


def test_warmup_segments_and_evaluations_have_windows_of_their_own(light: Light) -> None:
    light.train(3, 10 * MS, warmup=True)
    light.train(70, 10 * MS)
    waits = {"evaluation_blocked_ns": 7 * MS}
    light.train(1, 90 * MS, evaluation=True, **waits, phases=[("evaluation", 5 * MS, 60 * MS)])
    light.train(20, 10 * MS)
    light.train(5, 10 * MS, segment="other")
    light.writer.flush()
    windows = light.windows
    assert {one["warmup"] for one in windows if one["step"] < 3} == {True}
    (evaluation,) = (one for one in windows if "evaluation_ns" in one)
    assert (evaluation["step"], evaluation["num_steps"]) == (73, 1)
    assert evaluation["evaluation_ns"] == 65 * MS
    assert evaluation["evaluation_blocked_ns"] == 7 * MS
    assert next(one["step"] for one in windows if one["segment"] == "other") == 94
    covered = [step for one in windows for step in range(one["step"], one["last_step"] + 1)]
    assert covered == list(range(light.step))


def test_each_window_is_in_the_file_as_soon_as_it_is_over(light: Light) -> None:
    light.train(200, 50 * MS)
    written = light.windows[-1]["last_step"]
    # A killed rank loses at most what came after: less than twice a window.
    assert (light.step - written) * 50 * MS < 2 * target_ns(light.now_ns)


@pytest.mark.parametrize("length_ms", [2, 5, 50, 400, 5000, 60_000])
def test_windows_of_an_hour_fit_into_a_megabyte(length_ms: int) -> None:
    # The schedule alone: an hour of steps of 2 ms takes long to add up.
    step_ns, now_ns, num_steps, num_windows = length_ms * MS, 0, 1, 0
    while now_ns < HOUR_NS:
        span_ns = num_steps * step_ns
        now_ns += span_ns
        num_windows += 1
        num_steps = next_length(num_steps, span_ns, target_ns(now_ns))
        assert num_steps * step_ns <= max(LONGEST_NS, step_ns)
    assert num_windows * len(longest_line()) < BOUND
    # Enough windows for a verdict also after half a minute.
    assert length_ms >= 5000 or num_windows > 200


def longest_line() -> str:
    """A window with all parts and kinds of waits, and numbers as long as an hour makes them."""
    spread = f"[{10**10},{10**9},{10**9},{10**10}]"
    parts = ",".join(f'"{name}":{spread}' for name in ("data", "forward", "backward", "optimizer"))
    waits = ",".join(f'["{kind}",{10**6},{10**10},{10**10},512]' for kind in WAIT_KINDS)
    numbers = ",".join(f'"{name}":{10**18}' for name in ("start_ns", "end_ns", "wall_ns"))
    return (
        '{"kind":"window","segment":"main","step":1000000,"last_step":1000000,"num_steps":100000,'
        f'"warmup":false,{numbers},"samples":1000000000,"lengths":{spread},'
        f'"parts":{{{parts},"blocked":{spread}}},"waits":[{waits}],"after_ns":{10**10},'
        f'"longest":[1000000,{10**10},{10**10},"optimizer",{10**10}],"loss":0.0123456789012345}}\n'
    )


@pytest.mark.heavy
def test_no_written_line_is_longer_than_the_bound_counts_on(light: Light) -> None:
    waits = [(kind, -1, 512) for kind in WAIT_KINDS]
    blocked = [(place * MS, MS // 2) for place in range(len(WAIT_KINDS))]
    parts = ("data", "forward", "backward", "optimizer")
    phases = [(name, place * MS, MS) for place, name in enumerate(parts)]
    light.train(3000, 10 * MS, waits=waits, blocked=blocked, phases=phases, loss=1 / 3)
    lines = light.file.path.read_bytes().splitlines(keepends=True)
    assert max(map(len, lines[1:])) <= len(longest_line())


def test_an_hour_of_long_steps_stays_below_a_megabyte(light: Light) -> None:
    light.train(720, 5000 * MS)
    light.writer.flush()
    assert light.file.path.stat().st_size < BOUND
    assert sum(one["num_steps"] for one in light.windows) == 720


@pytest.mark.heavy
def test_profiled_steps_have_windows_of_their_own_and_the_others_end_as_before(
    tmp_path: Path,
) -> None:
    ends = []
    for name, profiled in (("plain", False), ("profiled", True)):
        (tmp_path / name).mkdir()
        light = Light(tmp_path / name)
        light.train(101, 90 * MS)
        light.train(2, 90 * MS, **({"profiled": True} if profiled else {}))
        light.train(97, 90 * MS)
        light.writer.flush()
        windows = light.windows
        own = [one for one in windows if one.get("profiled")]
        assert [one["step"] for one in own] == [101, 102] * profiled
        assert all(one["num_steps"] == 1 and not one["warmup"] for one in own)
        ends.append({one["last_step"] for one in windows})
    # Windows of ranks nest where only one of them profiles.
    assert ends[0] <= ends[1]


@pytest.mark.parametrize("kind", ["warmup", "evaluation"])
def test_what_asks_for_ever_more_windows_does_not_exceed_the_bound(light: Light, kind: str) -> None:
    for _ in range(1500):
        light.train(1, 20 * MS, **{kind: True}, phases=[("evaluation", 0, MS)])
        light.train(1, 20 * MS)
    longest = max(map(len, light.file.path.read_bytes().splitlines()))
    assert light.file.size_bytes <= allowed_bytes(light.now_ns) + longest + 1
    assert allowed_bytes(HOUR_NS) + longest < BOUND
    assert len(light.reported) == 1


@pytest.mark.heavy
def test_windows_become_shorter_where_steps_become_longer(light: Light) -> None:
    light.train(4000, 2 * MS)
    long = light.windows[-1]["num_steps"]
    light.train(200, 1000 * MS)
    windows = [one for one in light.windows if one["step"] > 4000]
    assert len(windows) > 5
    assert long >= 64
    assert max(one["end_ns"] - one["start_ns"] for one in windows) <= 2 * LONGEST_NS


@pytest.mark.heavy
def test_quantiles_of_many_steps_need_bounded_memory() -> None:
    lengths = Lengths()
    values = [(17 * number) % 10_007 for number in range(100_000)]
    for value in values:
        lengths.add(value)
    total, median, p95, largest = lengths.spread(len(values))
    assert (total, largest) == (sum(values), max(values))
    assert len(lengths.values) <= 2 * MOST_VALUES
    assert median == pytest.approx(statistics.median(values), rel=0.1)
    assert p95 == pytest.approx(0.95 * 10_007, rel=0.05)


def test_steps_without_a_part_count_as_zero() -> None:
    lengths = Lengths()
    lengths.add(10)
    assert lengths.spread(4) == (10, 0, 10, 10)
