"""One rank's recorder file: JSON lines to arrays, whatever state the rank left the file in.

The file of a killed rank ends in the middle of a line; a full disk leaves holes. What can be read
is used, what cannot is counted and told in ``problems``.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.phases import NUM_STEP_PARTS, intervals, part_lengths
from hvdprof.ingest.whole_number import whole

RECORDER_SCHEMA_VERSION = 1

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One clock exchange: at ``monotonic_ns`` of the rank, aligned time was ``offset_ns`` more."""

    monotonic_ns: int
    offset_ns: int
    error_ns: int
    method: str


@dataclass(frozen=True, slots=True)
class TimelineSwitch:
    """When Horovod's timeline was started or stopped, on both clocks of rank 0's host."""

    action: str
    file: str
    monotonic_ns: int
    wall_ns: int


@dataclass(slots=True)
class SegmentRecording:
    """What a rank recorded in one segment, on the rank's own clock.

    ``steps`` has a row a step: step, warmup, start_ns, dur_ns, samples, and the parts of
    ``ingest.phases``; ``ready_ns`` holds the offsets of the gradients of step ``ready_row``.
    ``parts`` has row of the step, offset and length of each recorded interval, ``part_names`` its
    name.
    """

    id: str
    tensors: list[str] = field(default_factory=list)
    size_bytes: int = 0
    sent_bytes: int = 0
    steps: list[tuple[int, ...]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    ready_row: list[int] = field(default_factory=list)
    ready_ns: list[list[int]] = field(default_factory=list)
    parts: list[tuple[int, int, int]] = field(default_factory=list)
    part_names: list[str] = field(default_factory=list)

    def step_table(self) -> NDArray[np.int64]:
        """The steps as an array of one row a step."""
        return np.asarray(self.steps, dtype=np.int64).reshape(-1, 5 + NUM_STEP_PARTS)


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant that the training script named; ``segment`` is empty outside of segments."""

    name: str
    segment: str
    monotonic_ns: int


@dataclass(slots=True)
class RecorderFile:
    """Everything a rank recorded; ``problems`` are clauses that say what could not be used."""

    header: Line = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    segments: dict[str, SegmentRecording] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    timeline: list[TimelineSwitch] = field(default_factory=list)
    ended: bool = False
    problems: list[str] = field(default_factory=list)


def read_recorder_file(path: Path) -> RecorderFile:
    """What a recorder file holds.

    Raises:
        OSError: The file cannot be read at all.
    """
    reader = _Reader()
    data = path.read_bytes()
    lines = data.split(b"\n")
    torn = lines.pop()
    for line in lines:
        reader.read_line(line)
    if torn and not reader.take(torn):
        reader.counts["torn"] += 1
    return reader.finished()


class _Reader:
    def __init__(self) -> None:
        self.file = RecorderFile()
        self.current_segment = ""
        self.counts: Counter[str] = Counter()
        self.unknown_kinds: Counter[str] = Counter()
        self.by_kind = {
            "header": self.header,
            "clock": self.clock,
            "segment": self.segment,
            "step": self.step,
            "mark": self.mark,
            "timeline": self.timeline,
            "segment_end": self.segment_end,
            "problem": self.problem,
            "end": self.end,
        }

    def read_line(self, text: bytes) -> None:
        if text.strip() and not self.take(text):
            self.counts["damaged"] += 1

    def take(self, text: bytes) -> bool:
        try:
            line = json.loads(text)
            handle = self.by_kind.get(line["kind"])
            if handle is None:
                self.unknown_kinds[str(line["kind"])] += 1
            else:
                handle(line)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        return True

    def header(self, line: Line) -> None:
        if self.file.header:
            # A second launch wrote into the same file: its clock lines belong to it alone.
            self.file = RecorderFile()
            self.counts["earlier recordings"] += 1
        whole(line["rank"]), whole(line["monotonic_ns"]), whole(line["wall_ns"])
        self.file.header = line

    def clock(self, line: Line) -> None:
        self.file.exchanges.append(
            Exchange(
                monotonic_ns=whole(line["monotonic_ns"]),
                offset_ns=whole(line["offset_ns"]),
                error_ns=whole(line["error_ns"]),
                method=str(line["method"]),
            )
        )

    def segment(self, line: Line) -> None:
        tensors = line["tensors"]
        self.current_segment = str(line["id"])
        self.file.segments[str(line["id"])] = SegmentRecording(
            id=str(line["id"]),
            tensors=[str(tensor["name"]) for tensor in tensors],
            size_bytes=sum(whole(tensor["size_bytes"]) for tensor in tensors),
            sent_bytes=sum(whole(tensor["sent_bytes"]) for tensor in tensors),
        )

    def step(self, line: Line) -> None:
        lengths, found = part_lengths(line), intervals(line)
        row = (
            whole(line["step"]),
            int(bool(line["warmup"])),
            whole(line["start_ns"]),
            whole(line["dur_ns"]),
            whole(line["samples"]),
            *lengths,
        )
        if line["dur_ns"] <= 0 or line["samples"] <= 0:
            raise ValueError("a step takes time and samples")
        loss = line.get("loss")
        loss = float("nan") if loss is None else float(loss)
        ready = [whole(offset) for offset in line["ready"]]
        name = str(line["segment"])
        recording = self.file.segments.setdefault(name, SegmentRecording(id=name))
        if recording.steps and row[0] <= recording.steps[-1][0]:
            raise ValueError("steps are numbered upwards")
        if len(ready) == len(recording.tensors):
            recording.ready_row.append(len(recording.steps))
            recording.ready_ns.append(ready)
        else:
            self.counts["ready"] += 1
        recording.parts += [(len(recording.steps), offset, dur) for _, offset, dur in found]
        recording.part_names += [sys.intern(part) for part, _, _ in found]
        recording.steps.append(row)
        recording.losses.append(loss)

    def mark(self, line: Line) -> None:
        time_ns = whole(line["monotonic_ns"])
        self.file.marks.append(Mark(str(line["name"]), self.current_segment, time_ns))

    def timeline(self, line: Line) -> None:
        self.file.timeline.append(
            TimelineSwitch(
                action=str(line["action"]),
                file=str(line["file"]),
                monotonic_ns=whole(line["monotonic_ns"]),
                wall_ns=whole(line["wall_ns"]),
            )
        )

    def problem(self, line: Line) -> None:
        self.file.problems.append(f"the recorder reported: {line['message']}")

    def end(self, line: Line) -> None:
        self.file.ended = True

    def segment_end(self, line: Line) -> None:
        self.current_segment = ""

    def finished(self) -> RecorderFile:
        told = {
            "damaged": "{} damaged lines were left out",
            "torn": "the last line is cut off",
            "earlier recordings": "{} earlier recordings in the same file were left out",
            "ready": "{} steps have ready times for other tensors than announced",
        }
        problems = [text.format(self.counts[key]) for key, text in told.items() if self.counts[key]]
        for kind, number in self.unknown_kinds.items():
            problems.append(f"{number} lines of the unknown kind {kind!r} were left out")
        if not self.file.header:
            problems.append("it has no header")
        elif self.file.header.get("schema_version") != RECORDER_SCHEMA_VERSION:
            problems.append(f"its schema version is {self.file.header.get('schema_version')}")
        self.file.problems += problems
        return self.file
