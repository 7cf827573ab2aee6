"""Columns of a dump hold the same calls as its entries read one by one."""

import json
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_columns import read_dump_columns
from hvdprof.ingest.flight_recorder.dump_file import read_dump
from tests.builders.flight_dumps import dump, entry


def _written(path: Path, entries: list[object], **keys: object) -> Path:
    path.write_text(json.dumps({**dump(), "entries": entries, **keys}))
    return path


def test_calls_are_those_of_the_entries_in_order_of_submission(tmp_path: Path) -> None:
    entries = [
        entry(3),
        entry(1) | {"input_sizes": [[7]], "output_sizes": [[7]]},
        entry(2) | {"time_created_ns": str(entry(2)["time_created_ns"]), "collective_seq_id": "2"},
        entry(5) | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 9},
        entry(6) | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 10},
        {"record_id": 9},
        entry(4, completed=False) | {"process_group": ["1", "tp"]},
    ]
    path = _written(tmp_path / "rank-0.json", entries)
    columns, whole = read_dump_columns(path), read_dump(path)
    assert len(whole.calls) == 6
    assert columns.created_ns.tolist() == [call.created_ns for call in whole.calls]
    assert columns.seq.tolist() == [call.seq for call in whole.calls]
    for place, call in zip(columns.kind.tolist(), whole.calls, strict=True):
        kind = columns.kinds[place]
        assert (kind.group, kind.name, kind.dtype) == (call.group, call.name, call.dtype)
        assert (kind.size_bytes, kind.state) == (call.size_bytes, call.state)
    assert [kind.is_world for kind in columns.kinds].count(False) == 1
    assert columns.to_monotonic_ns is None


def test_a_time_of_the_wall_clock_becomes_one_of_the_monotonic_clock(tmp_path: Path) -> None:
    clock = {"wall_ns": 1000, "monotonic_ns": 30}
    columns = read_dump_columns(_written(tmp_path / "a.json", [entry(1)], hvdprof_clock=clock))
    assert columns.to_monotonic_ns == -970
    broken = {"wall_ns": "1000", "monotonic_ns": 2**70}
    columns = read_dump_columns(_written(tmp_path / "b.json", [entry(1)], hvdprof_clock=broken))
    assert columns.to_monotonic_ns is None


def test_a_number_that_no_column_holds_is_no_call(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.json", [entry(1), entry(2) | {"time_created_ns": 2**80}])
    assert read_dump_columns(path).seq.tolist() == [1]


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    with pytest.raises(UnreadableInputError, match="no dump of the flight recorder"):
        read_dump_columns(path)
