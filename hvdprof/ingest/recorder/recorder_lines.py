"""One rank's recorder file: JSON lines to arrays, from damaged files too.

The file of a killed rank ends in the middle of a line; a full disk leaves holes. What can be read
is used, what cannot is counted and reported in ``problems``.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hvdprof.ingest.recorder.recorder_file import (
    Exchange,
    LastEvaluation,
    Mark,
    RecorderFile,
    SegmentRecording,
    TimelineSwitch,
)
from hvdprof.ingest.recorder.step_phases import (
    UNSEEN,
    evaluation_end,
    intervals,
    part_lengths,
    waits,
)
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.json_codec import JsonObject, whole_lines
from hvdprof.rundir.recording.line_format import WindowLine
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.recorder_format import (
    INJECTED,
    RECORDER_SCHEMA_VERSION,
    Bucket,
    ClockLine,
    EndLine,
    EvaluationLine,
    HeaderLine,
    MarkLine,
    ProblemLine,
    SegmentEndLine,
    SegmentLine,
    SessionEndLine,
    SessionLine,
    StepLine,
    TimelineLine,
)
from hvdprof.rundir.regular_file import open_regular

_LARGEST = 2**62
_OF_CLOCK = re.compile(rb'\{"kind": ?"(?:header|clock)"')
_HEADER_NUMBERS = ("size", "local_rank", "local_size", "pid", "num_gpus", "num_threads")


def read_recorder_file(path: Path) -> RecorderFile:
    """What a recorder file holds.

    Raises:
        OSError: The file cannot be read at all.
    """
    reader = _Reader()
    with open_regular(path) as stream:
        for line in whole_lines(stream):
            if line is None:
                reader.counts["damaged"] += 1
            elif line.endswith(b"\n"):
                reader.read_line(line)
            elif not reader.take(line):
                reader.counts["torn"] += 1
    return reader.finished()


def read_recorder_clock(path: Path) -> RecorderFile:
    """The header and the clock exchanges of a recorder file, without what it recorded.

    Raises:
        OSError: The file cannot be read at all.
    """
    reader = _Reader()
    with open_regular(path) as stream:
        for line in whole_lines(stream):
            if line is not None and _OF_CLOCK.match(line):
                reader.take(line)
    return reader.file


def file_of_lines(lines: Iterable[JsonObject]) -> RecorderFile:
    """What lines of a recorder file hold that another program's log was made into."""
    reader = _Reader()
    for line in lines:
        reader.by_kind[line["kind"]](line)
    return reader.finished()


class _Reader:
    def __init__(self) -> None:
        self.file = RecorderFile()
        self.current_segment = ""
        self.counts: Counter[str] = Counter()
        self.unknown_kinds: Counter[str] = Counter()
        # Trusted to be as declared: what is not raises when it is read, and counts as damaged.
        self.by_kind: dict[str, Callable[[Any], None]] = {
            "header": self.header,
            "clock": self.clock,
            "segment": self.segment,
            "step": self.step,
            "window": self.window,
            "evaluation": self.evaluation,
            "mark": self.mark,
            "timeline": self.timeline,
            "segment_end": self.segment_end,
            "session": self.session,
            "session_end": self.session_end,
            "problem": self.problem,
            "end": self.end,
        }

    def read_line(self, text: bytes) -> None:
        if text.strip() and not self.take(text):
            self.counts["damaged"] += 1

    def take(self, text: bytes) -> bool:
        try:
            line = from_bytes(text)
            handle = self.by_kind.get(line["kind"])
            if handle is None:
                self.unknown_kinds[line["kind"]] += 1
            else:
                handle(line)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        return True

    def header(self, line: HeaderLine) -> None:
        if self.file.header:
            # A second launch wrote into the same file: its clock lines belong to it alone.
            self.file = RecorderFile()
            self.current_segment = ""
            self.counts = Counter({"earlier recordings": self.counts["earlier recordings"] + 1})
            self.unknown_kinds.clear()
        whole(line["rank"]), whole(line["monotonic_ns"]), whole(line["wall_ns"])
        self.file.header = {name: value for name, value in line.items() if _is_usable(name, value)}

    def clock(self, line: ClockLine) -> None:
        self.file.exchanges.append(
            Exchange(
                monotonic_ns=whole(line["monotonic_ns"]),
                offset_ns=whole(line["offset_ns"]),
                error_ns=whole(line["error_ns"]),
                method=str(line["method"]),
            )
        )

    def segment(self, line: SegmentLine) -> None:
        tensors = line["tensors"]
        self.current_segment = str(line["id"])
        self.file.segments[str(line["id"])] = SegmentRecording(
            id=str(line["id"]),
            tensors=[str(tensor["name"]) for tensor in tensors],
            size_of=[whole(tensor["size_bytes"]) for tensor in tensors],
            sent_of=[whole(tensor["sent_bytes"]) for tensor in tensors],
            process_times_ns=_process_time(line),
            totals=_totals(line),
        )

    def step(self, line: StepLine) -> None:
        recorded, waited = intervals(line), waits(line)
        row = (
            whole(line["step"]),
            int(bool(line["warmup"])),
            whole(line["start_ns"]),
            whole(line["dur_ns"]),
            whole(line["samples"]),
            *part_lengths(line, recorded),
        )
        if line["dur_ns"] <= 0 or line["samples"] <= 0:
            raise ValueError("a step takes time and samples")
        loss = line.get("loss")
        loss = float("nan") if loss is None else float(loss)
        evaluation_ns = evaluation_end(line, recorded)
        blocked_ns = line.get("evaluation_blocked_ns")
        evaluation_blocked_ns = UNSEEN if blocked_ns is None else whole(blocked_ns)
        ready = array("q", line["ready"])
        if ready and not -_LARGEST < min(ready) <= max(ready) < _LARGEST:
            raise ValueError("an offset is out of range")
        name = str(line["segment"])
        recording = self.file.segments.setdefault(name, SegmentRecording(id=name))
        reduced = _buckets(line.get("buckets", ()), len(recording.tensors))
        if recording.num_steps and row[0] <= recording.last_step:
            raise ValueError("steps are numbered upwards")
        if len(ready) == len(recording.tensors):
            recording.ready_row.append(recording.num_steps)
            recording.ready_ns.extend(ready)
        else:
            self.counts["ready"] += 1
        for offset, dur, members in reduced:
            recording.buckets.extend((recording.num_steps, offset, dur, len(members)))
            recording.bucket_members.extend(members)
        codes = recording.part_names
        for part, offset, dur in recorded:
            recording.parts.extend((recording.num_steps, offset, dur))
            recording.part_codes.append(codes.setdefault(part, len(codes)))
        for kind, *wait in waited:
            recording.waits.extend((recording.num_steps, *wait))
            recording.wait_codes.append(
                recording.wait_kinds.setdefault(kind, len(recording.wait_kinds))
            )
        recording.steps.extend(row)
        recording.losses.append(loss)
        recording.evaluation_ns.append(evaluation_ns)
        recording.evaluation_blocked_ns.append(evaluation_blocked_ns)
        if line.get("profiled"):
            recording.profiled.append((row[0], row[0]))

    def window(self, line: WindowLine) -> None:
        name = str(line["segment"])
        recording = self.file.segments.setdefault(name, SegmentRecording(id=name))
        recording.windows.add(line)
        if line.get("profiled"):
            recording.profiled.append((line["step"], line["last_step"]))

    def evaluation(self, line: EvaluationLine) -> None:
        numbers = [whole(line[key]) for key in ("step", "start_ns", "dur_ns", "rest_ns")]
        if min(numbers[2:]) < 0:
            raise ValueError("an evaluation takes time")
        blocked = [
            UNSEEN if length is None else whole(length)
            for length in (line["blocked_ns"], line["rest_blocked_ns"])
        ]
        name = str(line["segment"])
        recording = self.file.segments.setdefault(name, SegmentRecording(id=name))
        recording.last_evaluation = LastEvaluation(*numbers, *blocked)

    def mark(self, line: MarkLine) -> None:
        time_ns = whole(line["monotonic_ns"])
        self.file.marks.append(Mark(str(line["name"]), self.current_segment, time_ns))

    def timeline(self, line: TimelineLine) -> None:
        self.file.timeline.append(
            TimelineSwitch(
                action=str(line["action"]),
                file=str(line["file"]),
                monotonic_ns=whole(line["monotonic_ns"]),
                wall_ns=whole(line["wall_ns"]),
            )
        )

    def problem(self, line: ProblemLine) -> None:
        message = str(line["message"])
        faults = message.removeprefix(INJECTED) if message.startswith(INJECTED) else ""
        code = NoteCode.FAULTS_INJECTED if faults else NoteCode.RECORDER_PROBLEM
        self.file.problems.append(Note(code, f"the recorder reported: {message}", value=faults))

    def session(self, line: SessionLine) -> None:
        for number in (line["number"], line["slot"], line["launch_rank"]):
            whole(number)
        whole(line["started_ns"]), whole(line["entered_ns"])
        for moment in (line["left_ns"], line["shut_down_ns"], line["initialised_ns"]):
            whole(0 if moment is None else moment)
        self.file.session = line

    def session_end(self, line: SessionEndLine) -> None:
        whole(line["num_steps"]), whole(line["num_committed"])
        self.file.session_end = line

    def end(self, line: EndLine) -> None:
        self.file.ended = True

    def segment_end(self, line: SegmentEndLine) -> None:
        self.current_segment = ""
        recording = self.file.segments.get(str(line.get("id")))
        sent = [whole(size) for size in line.get("sent_bytes", ())]
        if recording is not None and recording.totals is not None and len(sent) == 1:
            recording.totals = (*recording.totals[:2], sent[0])
        elif recording is not None and sent and len(sent) == len(recording.sent_of):
            recording.sent_of = sent
        if recording is not None:
            recording.ended = True
            recording.process_times_ns += _process_time(line)

    def finished(self) -> RecorderFile:
        damaged = {"damaged": "{} damaged lines were skipped", "torn": "the last line is cut off"}
        omitted = {
            "earlier recordings": "{} earlier recordings in the same file were skipped",
            "ready": "{} steps have ready times for other tensors than declared",
        }
        problems = [
            Note(code, text.format(number), number=number)
            for code, texts in ((NoteCode.DAMAGED, damaged), (NoteCode.OMITTED, omitted))
            for key, text in texts.items()
            if (number := self.counts[key])
        ]
        for kind, number in self.unknown_kinds.items():
            text = f"{number} lines of the unknown kind {kind!r} were skipped"
            problems.append(Note(NoteCode.OMITTED, text, number=number))
        version = self.file.header.get("schema_version")
        if not self.file.header:
            problems.append(Note(NoteCode.SCHEMA, "it is empty or has no header"))
        elif version != RECORDER_SCHEMA_VERSION:
            problems.append(Note(NoteCode.SCHEMA, f"its schema version is {version}"))
        self.file.problems += problems
        return self.file


def _process_time(line: SegmentLine | SegmentEndLine) -> list[int]:
    return [whole(line["process_time_ns"])] if "process_time_ns" in line else []


def _totals(line: SegmentLine) -> tuple[int, int, int] | None:
    totals = line.get("totals")
    if totals is None:
        return None
    return whole(totals["num_tensors"]), whole(totals["size_bytes"]), whole(totals["sent_bytes"])


def _is_usable(name: str, value: object) -> bool:
    if name not in _HEADER_NUMBERS:
        return True
    try:
        whole(value)
    except ValueError:
        return False
    return True


def _buckets(values: Iterable[Bucket], num_tensors: int) -> list[tuple[int, int, "array[int]"]]:
    buckets = [(whole(offset), whole(dur), array("q", members)) for offset, dur, members in values]
    if any(not 0 <= member < num_tensors for _, _, members in buckets for member in members):
        raise ValueError("a bucket holds a tensor that was not declared")
    return buckets
