"""Windows of samples on their way into a file of bounded size."""

import json
from pathlib import Path
from typing import Any

from hvdprof.collect.lines.line_window import HOUR_NS, LAST_BYTES, LineFile, LineWindow
from hvdprof.collect.lines.sampler import PlaceName
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.recording.line_format import CallLine

SECOND_NS = 1_000_000_000


def names(number: int) -> list[PlaceName]:
    """Places of a file with a long name."""
    rest = [
        (f"/home/me/{'x' * 80}.py", line, f"function_{line}", "", "") for line in range(1, number)
    ]
    return [("", 0, "", "other", ""), *rest]


def lines_of(path: Path) -> list[Any]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def window(*places: int, step: int = 0) -> LineWindow:
    made = LineWindow("main", step, 1, 5, 9)
    for place in places:
        made.sample("forward", place, 50, 3)
    return made


def test_a_place_is_written_with_its_first_samples_alone(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    file = LineFile(LineWriter(path), names(4), 0, 10_000, 0)
    first = window(2, 2, 3)
    first.spend("forward", 120)
    first.spend("data", 30)

    assert file.write(first, 0)
    assert file.write(window(2), 0)
    one, two = lines_of(path)

    assert one["phases"] == [["forward", 3, 120, 150, 9], ["data", 0, 30, 0, 0]]
    assert [place[0] for place in one["places"]] == [2, 3]
    assert one["places"][0][1:] == list(names(4)[2])
    assert one["counts"] == [[0, 2, 2], [0, 3, 1]]
    assert two["places"] == []
    assert two["counts"] == [[0, 2, 1]]


def test_rare_places_count_together_where_there_is_no_room(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    file = LineFile(LineWriter(path), names(100), 0, 2_000, 0)
    many = window(*range(1, 100), *[7] * 10)

    assert file.write(many, 0)
    (line,) = lines_of(path)

    assert line["counts"][0] == [0, 7, 11]
    assert sum(count for _, _, count in line["counts"]) == sum(many.counts.values())
    assert [0, 0] in [count[:2] for count in line["counts"]]
    assert path.stat().st_size <= 2_000


def test_a_file_grows_by_its_bound_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    file = LineFile(LineWriter(path), names(2_000), 0, 60_000, 240_000)
    written = 0
    for second in range(0, 4 * 3600, 2):
        made = window(*(1 + (second * 37 + place) % 1_999 for place in range(40)), step=second)
        written += file.write(made, second * SECOND_NS)
        assert path.stat().st_size <= 60_000 + 240_000 * second // 3600 + 200

    assert 1_000 < written < 7_200
    assert file.write(window(5), 4 * HOUR_NS, is_last=True)
    assert path.stat().st_size <= 60_000 + 4 * 240_000 + LAST_BYTES


def test_calls_are_dropped_where_there_is_no_room(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    file = LineFile(LineWriter(path), names(1), 0, 3_000, 3_000)
    call: CallLine = {
        "kind": "call",
        "name": "torch.save",
        "segment": "main",
        "step": 3,
        "start_ns": 1,
        "dur_ns": 2,
        "file": "train.py",
        "line": 4,
        "detail": "",
    }
    for _ in range(100):
        file.write_call(call, 0)
    number = len(lines_of(path))

    assert 0 < number < 30
    assert path.stat().st_size <= 3_000
    file.write_call(call, HOUR_NS)
    assert len(lines_of(path)) == number + 1


def test_windows_add_up() -> None:
    first, second = window(1, 2), window(2, step=1)
    first.spend("forward", 10)
    second.spend("forward", 5)
    second.end_ns = 20

    first.add(second)

    assert (first.steps, first.step, first.start_ns, first.end_ns) == (2, 0, 5, 20)
    assert first.counts == {("forward", 1): 1, ("forward", 2): 2}
    assert first.phases["forward"][1] == 15
    assert sum(first.counts.values()) == 3
