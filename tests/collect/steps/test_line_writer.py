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


def test_of_several_lines_those_that_fit_stay(tmp_path, monkeypatch):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    lines = [{"kind": "mark", "name": name, "monotonic_ns": 1} for name in ("a", "b", "c")]
    length = len(json.dumps(lines[0], separators=(",", ":"))) + 1
    write = os.write
    with monkeypatch.context() as patch:
        # The second line fits without its end.
        patch.setattr(
            os, "write", lambda descriptor, data: write(descriptor, data[: 2 * length - 1])
        )
        with pytest.raises(OSError, match="disk full"):
            file.write(*lines)
    assert [json.loads(line) for line in file.path.read_text().splitlines()] == lines[:1]
    assert file.size_bytes == length
    file.write(lines[2])
    assert [json.loads(line)["name"] for line in file.path.read_text().splitlines()] == ["a", "c"]


def test_closing_twice_is_fine_and_writing_afterwards_is_an_error(tmp_path):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.write({"kind": "end", "monotonic_ns": 1})
