"""A trace becomes pieces of text, one per event, also where Kineto or a copy damaged it."""

import gzip
import json
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.kineto import trace_records
from hvdprof.ingest.kineto.trace_records import (
    TraceText,
    args_of,
    category_of,
    name_of,
    phase_of,
    thread_of,
    times_of,
)

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": f"aten::add {n}", "pid": 1, "tid": -3, "ts": n + 0.25,
     "dur": 2, "args": {"Input Dims": [[1, 2], []], "name": "no event"}}
    for n in range(40)
]  # fmt: skip
TRACE = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": EVENTS}


def _read(path: Path) -> tuple[list[bytes], TraceText]:
    text = TraceText()
    return list(trace_records.trace_records(path, text)), text


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("chunk_bytes", [64, 1000, 1 << 20])
def test_every_event_is_found_whatever_the_spacing_and_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None, chunk_bytes: int
) -> None:
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE | {"baseTimeNanoseconds": 7}, indent=indent))
    records, text = _read(path)
    events = [record for record in records if phase_of(record) == b"X"]
    assert [name_of(one) for one in events] == [event["name"] for event in EVENTS]
    assert [times_of(one) for one in events] == [(n * 1000 + 250, 2000) for n in range(40)]
    assert {thread_of(one) for one in events} == {-3}
    assert {category_of(one) for one in events} == {b"cpu_op"}
    assert args_of(events[0])["Input Dims"] == [[1, 2], []]
    assert text.is_complete
    assert b"schemaVersion" in text.head
    assert b"baseTimeNanoseconds" in text.tail


def test_what_follows_the_events_is_no_event(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(TRACE | {"INFO": ["a", "b"]}).encode()))
    records, text = _read(path)
    assert sum(phase_of(record) == b"X" for record in records) == 40
    assert b"INFO" in text.tail


def test_quotation_marks_and_backslashes_in_names_and_arguments_stay() -> None:
    record = (
        rb'{"ph": "X", "cat": "user_annotation", "name": "say "hi" \d", "pid": 1, "tid": 2, '
        rb'"ts": 5.5, "dur": 1, "args": {"Seq": 12, "dtype": "Float", "note": "a "b"", '
        rb'"Process Group Ranks": "[0, 1]"}}'
    )
    assert name_of(record) == r'say "hi" \d'
    assert times_of(record) == (5500, 1000)
    assert args_of(record)["Seq"] == 12
    assert args_of(record)["Process Group Ranks"] == "[0, 1]"


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        ("1682725898236567", 1_682_725_898_236_567_000),
        ("4458676522690.655", 4_458_676_522_690_655),
        ('"17.5"', 17_500),
        ("-3.25", -3_250),
        ("0.0004", 0),
    ],
)
def test_times_are_exact_nanoseconds(ts: str, expected: int) -> None:
    assert times_of(f'{{"ts": {ts}, "dur": 0}}'.encode()) == (expected, 0)


def test_an_event_without_a_length_has_no_times() -> None:
    assert times_of(b'{"ph": "i", "ts": 1}') is None


def test_a_trace_that_breaks_off_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    whole = json.dumps(TRACE)
    path.write_text(whole[: len(whole) * 2 // 3])
    records, text = _read(path)
    assert not text.is_complete
    assert 20 <= sum(phase_of(record) == b"X" for record in records) < 30


def test_packed_data_that_breaks_off_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    packed = gzip.compress(json.dumps(TRACE).encode())
    path.write_bytes(packed[: len(packed) - 20])
    assert "ends early" in _read(path)[1].broken


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(trace_records, "LARGEST_RECORD_BYTES", 5000)
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "' + "a" * 20_000)
    with pytest.raises(UnreadableInputError, match="longer than"):
        _read(path)
