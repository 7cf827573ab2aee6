import json
import os

import pytest

from hvdprof.collect.steps.line_writer import LineWriter


def test_each_write_is_one_whole_line(tmp_path):
    file = LineWriter(tmp_path / "recorder" / "rank-0.jsonl")
    file.write({"kind": "mark", "name": "début", "monotonic_ns": 5})
    assert json.loads(file.path.read_text(encoding="utf-8")) == {
        "kind": "mark",
        "name": "début",
        "monotonic_ns": 5,
    }
    assert file.path.read_bytes().endswith(b"\n")


def test_an_existing_recording_is_not_mixed_with_another(tmp_path):
    LineWriter(tmp_path / "rank-0.jsonl").close()
    with pytest.raises(FileExistsError):
        LineWriter(tmp_path / "rank-0.jsonl")


def test_line_that_fits_in_part_is_taken_back(tmp_path, monkeypatch):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    file.write({"kind": "mark", "name": "whole", "monotonic_ns": 1})
    before = file.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    with pytest.raises(OSError, match="only 7 of"):
        file.write({"kind": "mark", "name": "torn", "monotonic_ns": 2})
    assert file.path.read_bytes() == before


def test_closing_twice_is_fine_and_writing_afterwards_is_an_error(tmp_path):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.write({"kind": "end", "monotonic_ns": 1})
