"""Finished steps on their way into the recorder file."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hvdprof.collect.steps.step_marks import EVALUATION_PHASE, Number, WaitMarks
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import (
    GRAD_REDUCE,
    NOT_READY,
    NOT_SUBMITTED,
    EvaluationLine,
    StepLine,
)

MAX_UNREAD_STEPS = 16

STEPS_AT_ONCE = 32
"""Short steps are written together: code that runs once per step runs from cold caches, five times
as long as in a loop. All ranks write after the same steps, or they would delay each other in turn.
"""

LONGEST_DELAY_NS = 100_000_000
"""Steps at least as long are written one by one; what a killed rank may lose."""

MarkedBucket = tuple[Mark, Mark | None, list[int]]
"""Marks of the begin and the end of a reduction, and the places of its tensors."""


@dataclass(slots=True)
class FinishedStep:
    """A step whose marks have been taken and may not be readable yet.

    ``ready`` holds None for a gradient that was not produced; ``blocked`` is None where the
    blocked time is unknown, and ``waits`` what each blocked time was for. ``has_evaluation`` says
    that the rank also evaluated in the step, where it was blocked for ``evaluation_blocked_ns`` and
    in ``evaluation_waits``. ``is_profiled`` says that torch.profiler was on.
    """

    segment: str
    number: int
    samples: int
    warmup: bool
    begin: Mark
    end: Mark
    phases: list[tuple[str, Mark, Mark]]
    ready: list[Mark | None]
    blocked: list[tuple[Mark, Mark]] | None
    waits: list[WaitMarks]
    buckets: list[MarkedBucket]
    loss: Number | None
    has_evaluation: bool
    evaluation_blocked_ns: int
    evaluation_waits: list[tuple[Mark, Mark]]
    is_profiled: bool = False

    def marks_to_read(self) -> Iterator[Mark]:
        """All marks but the begin, some of them more than once."""
        yield self.end
        for _, begin, end in self.phases:
            yield begin
            yield end
        for begin, end in (*(self.blocked or ()), *self.evaluation_waits):
            yield begin
            yield end
        yield from (wait.submitted for wait in self.waits if wait.submitted is not None)
        yield from (mark for mark in self.ready if mark is not None)
        for begin, end, _ in self.buckets:
            yield from (mark for mark in (begin, end) if mark is not None)


class LineTaker(Protocol):
    """What the lines of steps are passed to."""

    def __call__(self, *lines: StepLine) -> None:
        """Take them in their order."""


class StepWriter:
    """Passes steps on in their order, once their marks can be read without waiting."""

    def __init__(
        self, take: LineTaker, source: TimeSource, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._take = take
        self._source = source
        self._clock = clock
        self._written_ns: int | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._unread: deque[FinishedStep] = deque()

    def add(self, step: FinishedStep) -> None:
        """Take a step; after ``STEPS_AT_ONCE`` steps or ``LONGEST_DELAY_NS`` write what is passed.

        Where a GPU is more than ``MAX_UNREAD_STEPS`` behind then, this waits for the oldest step.

        Raises:
            OSError: The recorder file took no more.
        """
        self._unread.append(step)
        now_ns = self._clock()
        is_due = self._written_ns is None or now_ns - self._written_ns >= LONGEST_DELAY_NS
        if not is_due and (step.number + 1) % STEPS_AT_ONCE:
            return
        self._written_ns = now_ns
        self.write_passed()
        while len(self._unread) > MAX_UNREAD_STEPS:
            self._source.wait_for(self._unread[0].end)
            self.write_passed()

    def write_passed(self) -> None:
        """Write the steps whose marks can be read without waiting; any thread may.

        Raises:
            OSError: The recorder file took no more.
        """
        # A forked process writes nothing; another thread may have held the lock when it was made.
        if os.getpid() != self._pid:
            self._unread.clear()
            return
        with self._lock:
            lines: list[StepLine] = []
            try:
                while self._unread and self._source.is_passed(self._unread[0].end):
                    lines.append(self._line_of(self._unread.popleft()))
            finally:
                # Also those before a step that cannot be written.
                if lines:
                    self._take(*lines)

    def write_rest(self) -> None:
        """Wait for the remaining steps and write them.

        Raises:
            OSError: The recorder file took no more.
        """
        while self._unread:
            self._source.wait_for(self._unread[0].end)
            self.write_passed()

    def evaluation_line(self, step: FinishedStep) -> EvaluationLine:
        """The line of an evaluation after the last step, all of which are written.

        Args:
            step: The open step, as far as it has come; this waits for its marks.
        """
        self._source.wait_for(step.end)
        start_ns, offset = self._source.begin_ns(step.begin), self._source.offset_ns
        passes_end = max(offset(end) for name, _, end in step.phases if name == EVALUATION_PHASE)
        waits = [(offset(begin), offset(end)) for begin, end in step.blocked or ()]
        behind = [(begin, end) for begin, end in waits if begin >= passes_end]
        is_known = step.blocked is not None
        return {
            "kind": "evaluation",
            "segment": step.segment,
            "step": step.number,
            "start_ns": start_ns,
            "dur_ns": passes_end,
            "rest_ns": max((end for _, end in behind), default=passes_end) - passes_end,
            "blocked_ns": self._evaluation_blocked_ns(step) if is_known else None,
            "rest_blocked_ns": sum(end - begin for begin, end in behind) if is_known else None,
        }

    def _evaluation_blocked_ns(self, step: FinishedStep) -> int:
        offset = self._source.offset_ns
        of_marks = sum(offset(end) - offset(begin) for begin, end in step.evaluation_waits)
        return step.evaluation_blocked_ns + of_marks

    def _line_of(self, step: FinishedStep) -> StepLine:
        start_ns, offset = self._source.begin_ns(step.begin), self._source.offset_ns
        blocked = None
        if step.blocked is not None:
            blocked = [(at := offset(begin), offset(end) - at) for begin, end in step.blocked]
        line: StepLine = {
            "kind": "step",
            "segment": step.segment,
            "step": step.number,
            "warmup": step.warmup,
            "start_ns": start_ns,
            "dur_ns": offset(step.end),
            "samples": step.samples,
            "phases": [
                (name, at := offset(begin), offset(end) - at) for name, begin, end in step.phases
            ],
            "ready": [NOT_READY if mark is None else offset(mark) for mark in step.ready],
            "blocked": blocked,
        }
        if blocked is not None and any(wait.kind != GRAD_REDUCE for wait in step.waits):
            # A stream of a GPU may reach its collective after another one began to wait for it.
            line["waits"] = [
                (
                    wait.kind,
                    NOT_SUBMITTED if wait.submitted is None else min(offset(wait.submitted), begin),
                    wait.num_ranks,
                )
                for wait, (begin, _) in zip(step.waits, blocked, strict=True)
            ]
        reduced = [
            (at := offset(begin), offset(end) - at, members)
            for begin, end, members in step.buckets
            if end is not None
        ]
        if reduced:
            line["buckets"] = reduced
        if step.has_evaluation:
            line["evaluation"] = True
            if blocked is not None:
                line["evaluation_blocked_ns"] = self._evaluation_blocked_ns(step)
        if step.is_profiled:
            line["profiled"] = True
        if step.loss is not None:
            line["loss"] = float(step.loss)
        self._source.recycle(step.marks_to_read())
        return line
