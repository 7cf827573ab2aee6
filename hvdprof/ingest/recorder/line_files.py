"""Files of samples beside a recording, of lines of code and of the machine, to tables.

A worker knows no steps: its windows get those of its rank, whose host has the same clock.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hvdprof import units
from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.session_rows import Alignment
from hvdprof.ingest.storage.blocks import Block
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.schema import Table, names
from hvdprof.model.tables.line_tables import LINE_SAMPLES, LINE_SAMPLING, NAMED_CALLS
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, HOST_SAMPLES, RANK_SAMPLES
from hvdprof.rundir.json_codec import whole_lines
from hvdprof.rundir.recording.line_format import WORKER_PROCESS, CallLine, SampledLine
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.sample_format import DEVICE, HOST, MEASURES, RANK
from hvdprof.rundir.regular_file import open_regular

EVALUATION_CALL = "evaluation"
_OTHER = ("", 0, "", "other", "")

Window = tuple[str, int, int, int]
"""Segment, first step, number of steps, and the time in them, ns."""

Phase = tuple[str, int, int, int, int]
"""Name, samples, time, and the sums of their gaps and delays, ns."""

_TABLES = {RANK: RANK_SAMPLES, HOST: HOST_SAMPLES, DEVICE: DEVICE_SAMPLES}
_Row = tuple[str, int, int, str, int, float, float, float, float]


@dataclass(slots=True)
class RankLines:
    """What a rank and its workers wrote, as rows of the tables without pass and rank.

    Places have numbers of their own, anew from each ``sampling`` line of a file on.
    """

    recording: RecorderFile
    samples: list[tuple[object, ...]] = field(default_factory=list)
    sampling: list[tuple[object, ...]] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    num_damaged: int = 0
    _process: str = ""
    _places: dict[int, tuple[str, int, str, str, str]] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        """Add a file of the rank; damaged lines are counted.

        Raises:
            OSError: The file cannot be read at all.
        """
        self._process = ""
        with open_regular(path) as stream:
            for line in whole_lines(stream):
                if line is None or not self._take(line):
                    self.num_damaged += 1

    def blocks(self, pass_id: str, rank: int, alignment: Alignment) -> list[tuple[Table, Block]]:
        """What there is of each table."""
        for name, segment in self.recording.segments.items():
            for step, start_ns, dur_ns, *_ in segment.evaluation_table().tolist():
                self.calls.append((name, step, EVALUATION_CALL, start_ns, dur_ns, "", 0, ""))
        found: list[tuple[Table, Block]] = []
        for table, rows in (
            (LINE_SAMPLES, self.samples),
            (LINE_SAMPLING, self.sampling),
            (NAMED_CALLS, self.calls),
        ):
            if rows:
                columns: dict[str, object] = {"pass_id": pass_id, "rank": rank}
                own = [column for column in table.columns if column.name not in columns]
                for column, values in zip(own, zip(*rows, strict=True), strict=True):
                    if column.dtype == "category":
                        columns[column.name] = names([str(value) for value in values])
                        continue
                    numbers = np.asarray(values, dtype=np.int64)
                    is_time = column.name == "start_ns"
                    columns[column.name] = alignment.aligned_ns(numbers) if is_time else numbers
                found.append((table, columns))
        return found

    def window_at(self, start_ns: int, end_ns: int) -> Window:
        """The steps of the rank in a while; step -1 where it has none there."""
        most: Window = (next(iter(self.recording.segments), ""), -1, 0, 0)
        for name, segment in self.recording.segments.items():
            found = _steps_within(segment, start_ns, end_ns)
            if found[1] > most[2]:
                most = (name, *found)
        return most

    def _take(self, text: bytes) -> bool:
        try:
            # Trusted to be as declared: what is not raises when it is read, and counts as damaged.
            line = from_bytes(text)
            if line["kind"] == "sampling":
                self._process, self._places = str(line["process"]), {}
            elif line["kind"] == "lines":
                self._add_window(line)
            elif line["kind"] == "call":
                self._add_call(line)
            else:
                return False
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        return True

    def _add_window(self, line: SampledLine) -> None:
        places = {
            whole(number): (str(file), whole(row), str(function), str(leaf), "".join(stage))
            for number, file, row, function, leaf, *stage in line["places"]
        }
        times = whole(line["start_ns"]), whole(line["end_ns"])
        window = (str(line["segment"]), whole(line["step"]), whole(line["steps"]))
        phases = [
            (str(phase), whole(samples), whole(time_ns), whole(gap_ns), whole(late_ns))
            for phase, samples, time_ns, gap_ns, late_ns in line["phases"]
        ]
        counts = [(whole(phase), whole(place), whole(n)) for phase, place, n in line["counts"]]
        if not self._process or any(not 0 <= phase < len(phases) for phase, _, _ in counts):
            raise ValueError("samples of no process, or of no phase")
        if self._process == WORKER_PROCESS:
            *_, in_steps_ns = of_rank = self.window_at(*times)
            window = of_rank[:3]
            phases = [_running(phase, times[1] - times[0] - in_steps_ns) for phase in phases]
        head = (window[0], self._process, *window[1:])
        self._places |= places
        self.sampling += [
            (*head, phase, samples, time_ns, gap_ns // samples if samples else 0, late_ns)
            for phase, samples, time_ns, gap_ns, late_ns in phases
        ]
        self.samples += [
            (*head, phases[phase][0], *self._places.get(place, _OTHER), number)
            for phase, place, number in counts
        ]

    def _add_call(self, line: CallLine) -> None:
        what = (str(line["segment"]), whole(line["step"]), str(line["name"]))
        when = (whole(line["start_ns"]), whole(line["dur_ns"]))
        where = (str(line["file"]), whole(line["line"]), str(line["detail"]))
        self.calls.append((*what, *when, *where))


def lines_of_rank(
    paths: Sequence[Path],
    recording: RecorderFile,
    reading: Callable[[Path], AbstractContextManager[object]],
) -> tuple[RankLines, list[Note]]:
    """What the files of a rank hold, and clauses on what could not be used of them."""
    lines, notes = RankLines(recording), []
    for path in paths:
        try:
            with reading(path):
                lines.read(path)
        except OSError as error:
            clause = f"its sampled lines could not be read: {error.strerror or error}"
            notes.append(Note(NoteCode.UNREADABLE, clause))
    if lines.num_damaged:
        text = f"{units.counted(lines.num_damaged, 'damaged line')} of its samples skipped"
        notes.append(Note(NoteCode.DAMAGED, text, number=lines.num_damaged))
    return lines, notes


def _steps_within(segment: SegmentRecording, start_ns: int, end_ns: int) -> tuple[int, int, int]:
    """The first step that lies in a while at least in part, their number, and its time in them."""
    table, counts = segment.step_table(), segment.steps_of_rows()
    begins, ends = table[:, 2], table[:, 2] + table[:, 3] * counts
    rows = np.flatnonzero((begins < end_ns) & (ends > start_ns))
    if not len(rows):
        return -1, 0, 0
    inside = np.minimum(ends[rows], end_ns) - np.maximum(begins[rows], start_ns)
    return int(table[rows[0], 0]), int(counts[rows].sum()), int(inside.sum())


def _running(phase: Phase, beside_ns: int) -> Phase:
    """A phase of a worker without turns of other launches: no step, and a sample late by them."""
    name, samples, time_ns, gap_ns, late_ns = phase
    stopped_ns = max(min(beside_ns, late_ns, gap_ns), 0)
    return name, samples, max(time_ns - stopped_ns, 0), gap_ns - stopped_ns, late_ns - stopped_ns


@dataclass(slots=True)
class RankSamples:
    """What a rank sampled, as rows of the tables without pass and rank, by scope."""

    rows: dict[str, list[_Row]] = field(default_factory=dict)
    num_damaged: int = 0

    def read(self, path: Path) -> None:
        """Add a file; damaged lines are counted.

        Raises:
            OSError: The file cannot be read at all.
        """
        with open_regular(path) as stream:
            for text in whole_lines(stream):
                if text is None or not self._take(text):
                    self.num_damaged += 1

    def blocks(self, pass_id: str, rank: int, alignment: Alignment) -> list[tuple[Table, Block]]:
        """What there is of each table."""
        found: list[tuple[Table, Block]] = []
        for scope, rows in self.rows.items():
            table = _TABLES[scope]
            own = dict(zip(DEVICE_SAMPLES.column_names[2:], zip(*rows, strict=True), strict=True))
            columns: dict[str, object] = {"pass_id": pass_id, "rank": rank}
            for column in table.columns[2:]:
                values = own[column.name]
                if column.dtype == "category":
                    columns[column.name] = names([str(value) for value in values])
                else:
                    numbers = np.asarray(values, dtype=column.dtype)
                    is_time = column.name == "start_ns"
                    columns[column.name] = alignment.aligned_ns(numbers) if is_time else numbers
            found.append((table, columns))
        return found

    def _take(self, text: bytes) -> bool:
        try:
            # Trusted to be as declared: what is not raises when it is read, and counts as damaged.
            line = from_bytes(text)
            if line["kind"] != "samples":
                return False
            start_ns = whole(line["start_ns"])
            head = str(line["device"]), start_ns, whole(line["end_ns"]) - start_ns
            rows = []
            for name, number, *summary in line["measures"]:
                mean, low, median, high = (float(value) for value in summary)
                if not all(map(math.isfinite, (mean, low, median, high))):
                    return False
                # A newer version may sample more.
                if name in MEASURES:
                    rows.append((*head, name, whole(number), mean, low, median, high))
            if line["scope"] not in _TABLES or not -1 << 63 <= start_ns < 1 << 63 or head[2] < 0:
                return False
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        if rows:
            self.rows.setdefault(line["scope"], []).extend(rows)
        return True


def samples_of_rank(
    path: Path, reading: Callable[[Path], AbstractContextManager[object]]
) -> tuple[RankSamples, list[Note]]:
    """What the file of a rank holds, and clauses on what could not be used of it.

    Args:
        path: The file; recordings of earlier versions have none.
        reading: A context around the reading of a file.
    """
    samples, notes = RankSamples(), []
    try:
        if path.exists():
            with reading(path):
                samples.read(path)
    except OSError as error:
        clause = f"its samples of the machine could not be read: {error.strerror or error}"
        notes.append(Note(NoteCode.UNREADABLE, clause))
    if samples.num_damaged:
        lines = units.counted(samples.num_damaged, "damaged line")
        text = f"{lines} of its samples of the machine skipped"
        notes.append(Note(NoteCode.DAMAGED, text, number=samples.num_damaged))
    return samples, notes
