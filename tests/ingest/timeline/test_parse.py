import dataclasses
import json
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.timeline import horovod_timeline as read
from hvdprof.ingest.timeline.horovod_timeline import read_raw
from tests.builders.places import RECORDINGS
from tests.builders.timeline_reference import assert_same

RECORDING = RECORDINGS / "07_mpi_fp16.json"
KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps({"schemaVersion": 1, "traceEvents": [KERNEL] * 9}), "PyTorch's profiler"),
        (json.dumps({"traceEvents": [KERNEL] * 9}), "a Chrome trace"),
        (json.dumps([KERNEL] * 9), "a Chrome trace"),
        (json.dumps({"a": 1}), "JSON of another kind"),
        ("[1, 2]", "JSON of another kind"),
        ("np,samples\n1,2\n", "other text"),
        ("\0\1\2", "binary data"),
    ],
)
def test_other_files_are_refused_and_named(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(UnreadableInputError, match=said):
        read_raw(path)


@pytest.mark.heavy
def test_a_large_foreign_trace_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [KERNEL] * 50_000}))
    seen: list[int] = []
    with pytest.raises(UnreadableInputError):
        read_raw(path, progress=lambda done, _: seen.append(done))
    assert seen[-1] < path.stat().st_size


@pytest.mark.parametrize("content", ["", "[", "[]"])
def test_empty_files_are_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    assert len(read_raw(path).slices) == 0


def test_large_files_take_the_fast_path_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    small = read_raw(RECORDING)
    monkeypatch.setattr(read, "SMALL_BYTES", 1)
    assert_same(read_raw(RECORDING), small)


def test_only_large_files_without_numba_are_worth_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "SLOW_BYTES", 10)
    monkeypatch.setattr(read, "has_numba", lambda: True)
    assert not read.is_slow(RECORDING)
    monkeypatch.setattr(read, "has_numba", lambda: False)
    assert read.is_slow(RECORDING)
    monkeypatch.setattr(read, "SMALL_BYTES", 1)
    assert len(read_raw(RECORDING).slices) == 264


@pytest.mark.heavy
@pytest.mark.parametrize(
    "added", [{"tid": 0}, {"cat": "hvd"}, {"id": "0x1"}, {"tid": 3, "cat": ""}]
)
@pytest.mark.parametrize("smallest_fast", [1, 1 << 30])
def test_records_with_added_keys_are_still_horovods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: dict[str, object], smallest_fast: int
) -> None:
    monkeypatch.setattr(read, "SMALL_BYTES", smallest_fast)
    records = json.loads(RECORDING.read_text())
    timed = [one | added if one["ph"] != "M" else one for one in records]
    whole, path = tmp_path / "whole.json", tmp_path / "added.json"
    whole.write_text(json.dumps(records))
    path.write_text(json.dumps(timed))
    found, expected = read_raw(path), read_raw(whole)
    assert_same(dataclasses.replace(found, size_bytes=expected.size_bytes), expected)


def test_another_trace_in_the_same_file_is_passed_over(tmp_path: Path) -> None:
    foreign = [
        {"ph": "M", "name": "process_name", "pid": 900, "args": {"name": "python"}},
        {"ph": "B", "name": "forward", "cat": "cpu", "pid": 900, "tid": 1, "ts": 5},
        {"ph": "E", "name": "forward", "cat": "cpu", "pid": 900, "tid": 1, "ts": 9},
        {"ph": "B", "name": "ALLREDUCE", "pid": 1, "tid": "other", "ts": 9},
        {"ph": "i", "name": "mark", "pid": 900, "tid": 1, "ts": 9, "s": "t"},
        KERNEL,
    ]
    records = json.loads(RECORDING.read_text())
    path = tmp_path / "merged.json"
    path.write_text(json.dumps([*records, *foreign]))
    merged, alone = read_raw(path), read_raw(RECORDING)
    assert len(merged.slices) == len(alone.slices)
    assert len(merged.marks) == len(alone.marks)
    assert merged.num_records["other"] == len(foreign) - 1
