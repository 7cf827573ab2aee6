"""The line that a named rank's samples show more often than those of another rank."""

import json

import pytest

from hvdprof.live.sampled_place import LATEST_NS, LEAST_SAMPLES, sampled_place

TRAIN, SLOW, IDLE = ("/job/train.py", 9, "main"), ("/job/crop.py", 41, "crop"), ("", 0, "get")
S = 1_000_000_000


def write(folder, name, *windows, late_ns=0):
    """A file of sampled lines: windows of (start s, end s, phase, {place: samples})."""
    lines = [{"kind": "sampling", "rank": 0, "process": "main", "pid": 1, "hz": 20.0}]
    numbers: dict[tuple[str, int, str], int] = {}
    for start_s, end_s, phase, counts in windows:
        new = [place for place in counts if place not in numbers]
        numbers |= {place: len(numbers) + 1 + index for index, place in enumerate(new)}
        total = sum(counts.values())
        lines.append(
            {
                "kind": "lines",
                "start_ns": start_s * S,
                "end_ns": end_s * S,
                "phases": [[phase, total, 0, 0, total * late_ns], ["blocked", 0, 0, 0, 0]],
                "places": [[numbers[place], *place, ""] for place in new],
                "counts": [[0, numbers[place], number] for place, number in counts.items()],
            }
        )
    folder.mkdir(exist_ok=True)
    (folder / f"lines-{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def place(folder, phase="forward", late_ns=20e6):
    return sampled_place(folder, 1, 0, phase, late_ns)


def test_the_line_that_the_other_rank_lacks_is_named(tmp_path):
    write(tmp_path, 0, (0, 60, "forward", {TRAIN: 300}))
    write(tmp_path, 1, (0, 60, "forward", {TRAIN: 290, SLOW: 100}))
    assert place(tmp_path) == "crop.py:41 (crop)"


def test_nothing_is_named_where_ranks_do_the_same_or_samples_are_few(tmp_path):
    for rank in (0, 1):
        write(tmp_path, rank, (0, 60, "forward", {TRAIN: 300, SLOW: 100}))
    assert place(tmp_path) == ""
    write(tmp_path, 1, (0, 60, "forward", {SLOW: LEAST_SAMPLES - 1}))
    write(tmp_path, 0, (0, 60, "forward", {TRAIN: 300}))
    assert place(tmp_path) == ""
    assert sampled_place(tmp_path / "none", 1, 0, "forward", 20e6) == ""


def test_other_phases_and_old_windows_do_not_count(tmp_path):
    write(tmp_path, 0, (0, 60, "forward", {TRAIN: 100}))
    write(tmp_path, 1, (0, 60, "optimizer", {SLOW: 100}))
    assert place(tmp_path) == ""
    latest_s = 60 + LATEST_NS // S
    late = (latest_s, latest_s + 60, "forward", {TRAIN: 200})
    write(tmp_path, 1, (0, 60, "forward", {SLOW: 100}), late)
    assert place(tmp_path) == "train.py:9 (main)"


@pytest.mark.parametrize(
    ("delay_ns", "named"), [(9_000_000, "crop.py:41 (crop)"), (11_000_000, "")]
)
def test_samples_later_than_half_the_delay_name_nothing(tmp_path, delay_ns, named):
    write(tmp_path, 0, (0, 60, "forward", {TRAIN: 300}))
    write(tmp_path, 1, (0, 60, "forward", {SLOW: 100}), late_ns=delay_ns)
    assert place(tmp_path) == named


def test_workers_come_before_the_line_that_waits_for_them(tmp_path):
    write(tmp_path, 0, (0, 60, "data", {TRAIN: 10}))
    write(tmp_path, 1, (0, 60, "data", {TRAIN: 600}))
    for rank, counts in ((0, {IDLE: 900, SLOW: 100}), (1, {IDLE: 100, SLOW: 900})):
        write(tmp_path, f"{rank}-worker-0", (0, 60, "outside", counts))
    assert place(tmp_path, "data") == "crop.py:41 (crop)"


def test_damaged_lines_are_passed_over_and_names_are_printable(tmp_path):
    evil = ("/job/\x1b[31mx.py", 1, "f")
    write(tmp_path, 0, (0, 60, "forward", {TRAIN: 300}))
    write(tmp_path, 1, (0, 60, "forward", {evil: 300}))
    with (tmp_path / "lines-1.jsonl").open("a") as file:
        file.write('{"kind": "lines", "places": 7}\n{"kind": "li')
    assert place(tmp_path) == r"\x1b[31mx.py:1 (f)"
