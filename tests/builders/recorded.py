"""Recorder files as tests read them, checked line by line against their grammar."""

import json
from pathlib import Path
from typing import Any

from hvdprof.rundir.recording.recorder_codec import declared_kinds

KINDS = {kind.name: kind for kind in declared_kinds()}
KEYS = {
    name: {key.name for key in kind.keys if not key.is_optional} for name, kind in KINDS.items()
}


def recorded(path: Path) -> list[dict[str, Any]]:
    """The lines of a recorder file; each must be as docs/reference/run_directory.md says."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    num_tensors = 0
    for line in lines:
        assert next(iter(line)) == "kind"
        optional = {key.name for key in KINDS[line["kind"]].keys if key.is_optional}
        if line["kind"] == "step":
            _check_step(line, num_tensors)
        if line["kind"] == "segment_end" and "sent_bytes" in line:
            assert len(line["sent_bytes"]) == num_tensors
        if line["kind"] == "segment":
            num_tensors = len(line["tensors"])
            for tensor in line["tensors"]:
                assert set(tensor) == {"name", "size_bytes", "sent_bytes"}
        assert set(line) - {"kind"} - optional == KEYS[line["kind"]], line
    assert not lines or lines[0]["kind"] == "header"
    return lines


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The lines of one kind."""
    return [line for line in lines if line["kind"] == kind]


def steps_of(lines: list[dict[str, Any]], segment: str) -> list[dict[str, Any]]:
    """The steps of one segment."""
    return [line for line in of_kind(lines, "step") if line["segment"] == segment]


def phase_ns(step: dict[str, Any], name: str) -> int:
    """The length of all pieces of a phase."""
    return sum(length for phase, _, length in step["phases"] if phase == name)


def blocked_ns(step: dict[str, Any]) -> int:
    """How long the rank was blocked in a step."""
    return sum(length for _, length in step["blocked"])


def _check_step(step: dict[str, Any], num_tensors: int) -> None:
    assert len(step["ready"]) == num_tensors
    assert step["dur_ns"] >= 0
    end = 0
    for _, begin, length in sorted(step["phases"], key=lambda piece: piece[1]):
        assert begin >= end, "phases overlap"
        assert length >= 0
        end = begin + length
    assert end <= step["dur_ns"]
    for begin, length in step["blocked"] or ():
        assert 0 <= begin <= begin + length <= step["dur_ns"]
        assert any(
            name in ("optimizer", "collective") and at <= begin and begin + length <= at + long
            for name, at, long in step["phases"]
        ), "blocked outside its phase"
    assert len(step.get("waits", step["blocked"] or ())) == len(step["blocked"] or ())
    assert all(ready == -1 or 0 <= ready <= step["dur_ns"] for ready in step["ready"])
