import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.model.notes import texts
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_spec import PassSpec, SegmentSpec

LINES = [
    json.dumps(line) for line in recorder_lines(PassSpec(segments=[SegmentSpec(num_steps=3)]), 0)
]


def read(tmp_path: Path, text: str | bytes) -> RecorderFile:
    path = tmp_path / "rank-0.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_recorder_file(path)


def num_steps(file: RecorderFile) -> int:
    return sum(segment.num_steps for segment in file.segments.values())


def test_a_whole_file(tmp_path: Path) -> None:
    file = read(tmp_path, "\n".join(LINES) + "\n")
    assert num_steps(file) == 5
    assert file.ended
    assert file.problems == []
    (segment,) = file.segments.values()
    assert segment.tensors == ["allreduce.fc.weight", "allreduce.fc.bias"]
    assert (segment.size_bytes, segment.sent_bytes) == (4040, 4040)


@pytest.mark.parametrize(
    ("at_end", "sent"), [([2000, 20], 2020), ([], 4040), ([1], 4040), ([1, 2, 3], 4040)]
)
def test_bytes_at_the_end_of_a_segment_replace_those_at_its_begin(
    tmp_path: Path, at_end: list[int], sent: int
) -> None:
    lines = [json.loads(line) for line in LINES]
    ends = [line | {"sent_bytes": at_end} for line in lines if line["kind"] == "segment_end"]
    others = [line for line in lines if line["kind"] != "segment_end"]
    file = read(tmp_path, "".join(json.dumps(line) + "\n" for line in [*others, *ends]))
    assert [one.sent_bytes for one in file.segments.values()] == [sent]
    assert file.problems == []


def test_a_torn_last_line_costs_one_step(tmp_path: Path) -> None:
    steps = [i for i, line in enumerate(LINES) if '"kind": "step"' in line]
    text = "\n".join(LINES[: steps[-1] + 1])[:-20]
    file = read(tmp_path, text)
    assert num_steps(file) == 4
    assert not file.ended
    assert list(texts(file.problems)) == ["the last line is cut off"]


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "[]",
        "null",
        '{"kind": "step"}',
        '{"kind": ["step"]}',
        '{"kind": "clock", "monotonic_ns": 1e400}',
        '{"kind": "mark", "name": "x", "monotonic_ns": 1.5}',
        '{"kind": "mark", "name": "x", "monotonic_ns": 99999999999999999999999}',
        '{"kind": "segment", "id": "s", "tensors": 3}',
        "[" * 100_000,
    ],
)
def test_damaged_lines_are_left_out_and_counted(tmp_path: Path, line: str) -> None:
    file = read(tmp_path, "\n".join([*LINES[:4], line, *LINES[4:]]) + "\n")
    assert num_steps(file) == 5
    assert list(texts(file.problems)) == ["1 damaged lines were skipped"]


def test_a_step_that_repeats_a_number_is_damage(tmp_path: Path) -> None:
    step = next(line for line in LINES if '"kind": "step"' in line)
    at = LINES.index(step)
    file = read(tmp_path, "\n".join([*LINES[: at + 1], step, *LINES[at + 1 :]]) + "\n")
    assert num_steps(file) == 5
    assert list(texts(file.problems)) == ["1 damaged lines were skipped"]


def test_kinds_of_a_later_version_are_reported(tmp_path: Path) -> None:
    file = read(tmp_path, "\n".join([*LINES, '{"kind": "gpu_clock"}']) + "\n")
    assert list(texts(file.problems)) == ["1 lines of the unknown kind 'gpu_clock' were skipped"]


def test_a_second_recording_replaces_the_first(tmp_path: Path) -> None:
    file = read(tmp_path, "\n".join([*LINES[:6], *LINES]) + "\n")
    assert num_steps(file) == 5
    assert list(texts(file.problems)) == ["1 earlier recordings in the same file were skipped"]


def test_problems_of_the_first_recording_are_not_those_of_the_second(tmp_path: Path) -> None:
    # Cut off within a segment, behind lines that could not be used.
    first = [*LINES[:6], "{damaged", '{"kind": "gpu_clock"}']
    mark = json.dumps({"kind": "mark", "name": "begin", "monotonic_ns": 5})
    file = read(tmp_path, "\n".join([*first, LINES[0], mark, *LINES[1:]]) + "\n")
    assert num_steps(file) == 5
    assert [one.segment for one in file.marks if one.name == "begin"] == [""]
    assert list(texts(file.problems)) == ["1 earlier recordings in the same file were skipped"]


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    mark = '{"kind": "mark", "name": "b\\ud800c \\u00e9", "monotonic_ns": 5}'
    file = read(tmp_path, "\n".join([LINES[0], mark, *LINES[1:]]) + "\n")
    assert [one.name for one in file.marks if one.monotonic_ns == 5] == ["b?c é"]
    assert file.problems == []


@pytest.mark.parametrize("value", [2**70, "many", 1.5, None, [1]])
def test_numbers_of_the_header_that_are_none_are_missing(tmp_path: Path, value: object) -> None:
    header = json.loads(LINES[0]) | {"pid": value, "num_threads": 3}
    file = read(tmp_path, "\n".join([json.dumps(header), *LINES[1:]]) + "\n")
    assert "pid" not in file.header
    assert (file.header["num_threads"], num_steps(file)) == (3, 5)


def test_the_recorders_own_problems_are_reported(tmp_path: Path) -> None:
    line = json.dumps({"kind": "problem", "message": "no hooks in this torch"})
    file = read(tmp_path, "\n".join([LINES[0], line, *LINES[1:]]) + "\n")
    assert list(texts(file.problems)) == ["the recorder reported: no hooks in this torch"]


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    assert list(texts(read(tmp_path, "").problems)) == ["it is empty or has no header"]


def test_ready_times_for_other_tensors_are_not_guessed(tmp_path: Path) -> None:
    lines = [line.replace('"ready": [', '"ready": [1, ', 1) for line in LINES]
    file = read(tmp_path, "\n".join(lines) + "\n")
    (segment,) = file.segments.values()
    assert len(segment.ready_ns) == 0
    assert list(texts(file.problems)) == [
        "5 steps have ready times for other tensors than declared"
    ]


@pytest.mark.heavy
@given(st.data())
def test_a_file_cut_anywhere_keeps_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = "\n".join(LINES) + "\n"
    cut = text[: data.draw(st.integers(0, len(text)))]
    file = read(tmp_path_factory.mktemp("cut"), cut)
    assert num_steps(file) >= cut.count('"kind": "step"') - 1
    assert num_steps(file) <= cut.count('"kind": "step"')


@given(st.binary(max_size=300))
def test_no_bytes_are_a_traceback(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    file = read(folder, LINES[0].encode() + b"\n" + noise + b"\n" + "\n".join(LINES[1:]).encode())
    assert num_steps(file) == 5
