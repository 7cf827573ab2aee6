"""What a rank recorded, as arrays."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.recorder.step_phases import (
    NUM_STEP_PARTS,
    UNSEEN,
    RecordedWindows,
    summed_lengths,
)
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.recording.recorder_format import SessionEndLine, SessionLine

_FIRST_PART = 5
_STEP_COLUMNS = _FIRST_PART + NUM_STEP_PARTS


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


class LastEvaluation(NamedTuple):
    """An evaluation after the last step, as its line has it; times in ns."""

    step: int
    start_ns: int
    dur_ns: int
    rest_ns: int
    blocked_ns: int
    rest_blocked_ns: int


def _int64s() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class SegmentRecording:
    """What a rank recorded in one segment, on the rank's own clock.

    Numbers are packed one after the other, eight bytes each, since hundreds of ranks are in memory
    at once: ``step_table``, ``ready_table``, ``part_table``, ``wait_table`` and ``bucket_table``
    give them a shape.
    ``evaluation_ns`` is the end of the last evaluation in each step, after its begin, -1 for none,
    ``evaluation_blocked_ns`` the blocked time until then, ``step_phases.UNSEEN`` where unknown.
    ``part_codes`` holds the name of each recorded interval as an index into ``part_names``,
    ``wait_codes`` likewise the kind of each wait,
    ``bucket_members`` the places in ``tensors`` of the gradients of all buckets, one bucket after
    the other; ``size_of`` the size of each gradient and ``sent_of`` what a rank submits of it, in
    bytes; ``process_times_ns`` the processor time of the rank with its workers at the first step
    and at the end; ``cut_ns`` what ``begin_after_evaluation`` has taken from each step;
    ``last_evaluation`` follows the last step. ``profiled`` holds first and last steps that
    torch.profiler recorded.
    ``windows`` is what a light recording holds instead of steps, ``counts`` the steps of which each
    row of its ``step_table`` is the mean (empty in a full recording), ``totals`` its number of
    gradients, their size and what is submitted of them. ``ended`` says that the rank has ended it.
    """

    id: str
    tensors: list[str] = field(default_factory=list)
    size_of: list[int] = field(default_factory=list)
    sent_of: list[int] = field(default_factory=list)
    steps: "array[int]" = field(default_factory=_int64s)
    losses: "array[float]" = field(default_factory=lambda: array("d"))
    evaluation_ns: "array[int]" = field(default_factory=_int64s)
    evaluation_blocked_ns: "array[int]" = field(default_factory=_int64s)
    ready_row: "array[int]" = field(default_factory=_int64s)
    ready_ns: "array[int]" = field(default_factory=_int64s)
    parts: "array[int]" = field(default_factory=_int64s)
    part_codes: "array[int]" = field(default_factory=_int64s)
    part_names: dict[str, int] = field(default_factory=dict)
    waits: "array[int]" = field(default_factory=_int64s)
    wait_codes: "array[int]" = field(default_factory=_int64s)
    wait_kinds: dict[str, int] = field(default_factory=dict)
    buckets: "array[int]" = field(default_factory=_int64s)
    bucket_members: "array[int]" = field(default_factory=_int64s)
    process_times_ns: list[int] = field(default_factory=list)
    windows: RecordedWindows = field(default_factory=RecordedWindows)
    counts: "array[int]" = field(default_factory=_int64s)
    totals: tuple[int, int, int] | None = None
    cut_ns: "array[int]" = field(default_factory=_int64s)
    last_evaluation: LastEvaluation | None = None
    profiled: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False

    @property
    def busy_ns(self) -> float:
        """Processor time of the rank and its workers in the segment; NaN if not recorded."""
        times = self.process_times_ns
        return float(times[1] - times[0]) if len(times) == 2 else float("nan")

    @property
    def recorded_ns(self) -> int:
        """The time of all steps, with what was taken from them: that of ``busy_ns``."""
        return int((self.step_table()[:, 3] * self.steps_of_rows()).sum()) + sum(self.cut_ns)

    @property
    def num_tensors(self) -> int:
        """The number of gradients."""
        return len(self.tensors) if self.totals is None else self.totals[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all gradients before compression."""
        return sum(self.size_of) if self.totals is None else self.totals[1]

    @property
    def sent_bytes(self) -> int:
        """Bytes that a rank submits of all tensors per step."""
        return sum(self.sent_of) if self.totals is None else self.totals[2]

    def steps_of_rows(self) -> NDArray[np.int64]:
        """The number of steps of which each row of ``step_table`` is the mean."""
        if not self.counts:
            return np.ones(self.num_steps, dtype=np.int64)
        return np.asarray(self.counts, dtype=np.int64)

    @property
    def num_steps(self) -> int:
        """The number of rows of ``step_table``."""
        return len(self.losses)

    @property
    def last_step(self) -> int:
        """The number of the last step; there must be one."""
        return self.steps[-_STEP_COLUMNS]

    @property
    def last_start_ns(self) -> int:
        """The start of the last step; there must be one."""
        return self.steps[2 - _STEP_COLUMNS]

    def step_table(self) -> NDArray[np.int64]:
        """One row per step: step, warmup, start_ns, dur_ns, samples, and the ``RECORDED_PARTS``.

        A part may be ``step_phases.UNSEEN``.
        """
        return np.asarray(self.steps, dtype=np.int64).reshape(-1, _STEP_COLUMNS)

    def evaluations(self) -> NDArray[np.int64]:
        """The numbers of the steps with an evaluation."""
        ends_ns = np.asarray(self.evaluation_ns, dtype=np.int64)
        return np.asarray(self.step_table()[ends_ns >= 0, 0])

    def evaluation_table(self) -> NDArray[np.int64]:
        """One row per evaluation whose end is known, as ``LastEvaluation``.

        The rest of one before the last step lies in its step, and is 0 here. Blocked
        time is ``step_phases.UNSEEN`` where unknown.
        """
        table, ends_ns = self.step_table(), np.asarray(self.evaluation_ns, dtype=np.int64)
        cut_ns = np.asarray(self.cut_ns, dtype=np.int64) if self.cut_ns else np.zeros_like(ends_ns)
        blocked_ns = np.asarray(self.evaluation_blocked_ns, dtype=np.int64)
        none = np.zeros_like(ends_ns)
        rows = np.column_stack(
            [table[:, 0], table[:, 2] - cut_ns, ends_ns, none, blocked_ns, none]
        )[(ends_ns > 0) & (self.steps_of_rows() == 1)]
        last = [] if self.last_evaluation is None else [self.last_evaluation]
        return np.concatenate([rows, np.array(last, dtype=np.int64).reshape(-1, 6)])

    def begin_after_evaluation(self, steps: NDArray[np.int64]) -> None:
        """Let these steps begin where their evaluation ends, as warm-up."""
        table = self.step_table()
        cut_ns = np.where(np.isin(table[:, 0], steps), np.asarray(self.evaluation_ns), 0)
        cut_ns = np.clip(cut_ns, 0, table[:, 3] - 1)
        table[:, 1] |= cut_ns > 0
        table[:, 2] += cut_ns
        table[:, 3] -= cut_ns
        self.cut_ns = array("q", cut_ns.tobytes())
        # The rest of the step, of which an evaluation is a part.
        table[:, -1] -= cut_ns
        self._cut_parts(table, cut_ns)
        self.part_table()[:, 1] -= cut_ns[self.part_table()[:, 0]]
        self.bucket_table()[:, 1] -= cut_ns[self.bucket_table()[:, 0]]
        waits = self.wait_table()
        waits[:, 1] -= cut_ns[waits[:, 0]]
        waits[:, 3] -= np.where(waits[:, 3] == UNSEEN, 0, cut_ns[waits[:, 0]])
        # A loop that reduces by hand records steps without gradients.
        if self.tensors:
            ready_ns = self.ready_table()
            of_row = cut_ns[np.asarray(self.ready_row, dtype=np.int64)][:, None]
            ready_ns -= np.where(ready_ns >= 0, of_row, 0)

    def _cut_parts(self, table: NDArray[np.int64], cut_ns: NDArray[np.int64]) -> None:
        """Take from the parts of steps what lies before their cut, and was taken from the rest."""
        pieces, names = self.part_table(), list(self.part_names)
        is_early = pieces[:, 1] < cut_ns[pieces[:, 0]]
        early: dict[int, list[tuple[str, int, int]]] = {}
        for place in np.flatnonzero(is_early).tolist():
            row, start, length = pieces[place].tolist()
            stop = min(start + length, int(cut_ns[row]))
            early.setdefault(row, []).append((names[self.part_codes[place]], start, stop))
        for row, pieces_of_row in early.items():
            for name, length in summed_lengths(pieces_of_row).items():
                column = _FIRST_PART + RECORDED_PARTS.index(name)
                # Unknown blocked time is in the rest.
                if table[row, column] != UNSEEN:
                    table[row, column] -= length
                    table[row, -1] += length

    def ready_table(self) -> NDArray[np.int64]:
        """Offsets of the gradients, a column per tensor; row i belongs to step ``ready_row[i]``."""
        return np.asarray(self.ready_ns, dtype=np.int64).reshape(-1, max(len(self.tensors), 1))

    def part_table(self) -> NDArray[np.int64]:
        """One row per recorded interval: row of the step, offset and length in ns."""
        return np.asarray(self.parts, dtype=np.int64).reshape(-1, 3)

    def wait_table(self) -> NDArray[np.int64]:
        """One row per wait of a known kind: row of the step, offset, length, submission, ranks.

        Times are in ns; the offset of the submission is ``step_phases.UNSEEN`` where unknown.
        """
        return np.asarray(self.waits, dtype=np.int64).reshape(-1, 5)

    def bucket_table(self) -> NDArray[np.int64]:
        """One row per bucket: row of the step, offset and length in ns, number of its tensors."""
        return np.asarray(self.buckets, dtype=np.int64).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant that the training script named; ``segment`` is empty outside of segments."""

    name: str
    segment: str
    monotonic_ns: int


@dataclass(slots=True)
class RecorderFile:
    """Everything a rank recorded; ``problems`` are clauses that say what could not be used.

    ``header`` is empty where the file has none; its numbers are whole, and missing where they were
    not. ``session`` and ``session_end`` are the lines of that kind of an elastic job, None
    elsewhere.
    """

    header: Mapping[str, object] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    segments: dict[str, SegmentRecording] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    timeline: list[TimelineSwitch] = field(default_factory=list)
    session: SessionLine | None = None
    session_end: SessionEndLine | None = None
    ended: bool = False
    problems: list[Note] = field(default_factory=list)

    def clauses(self, *, is_over: bool = True) -> list[Note]:
        """``problems``, and whether the recording has no end though its pass is over."""
        if self.ended or not is_over:
            return self.problems
        no_end = Note(NoteCode.NO_END, "it has no end: the rank did not end on its own")
        return [*self.problems, no_end]

    def header_number(self, key: str, default: int) -> int:
        """A whole number of the header, or the default."""
        value = self.header.get(key)
        return value if isinstance(value, int) else default

    def host_fact(self, key: str) -> str | None:
        """A text among the facts of the rank's host, None where it is unknown."""
        host = self.header.get("host")
        value = host.get(key) if isinstance(host, Mapping) else None
        return value if isinstance(value, str) else None
