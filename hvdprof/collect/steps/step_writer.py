"""Finished steps on their way into the recorder file.

Tested by tests/collect/test_recorder.py.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hvdprof.collect.steps.step_marks import Number, WaitMarks
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recorder_format import GRAD_REDUCE, NOT_READY, NOT_SUBMITTED, StepLine

MAX_UNREAD_STEPS = 16

MarkedBucket = tuple[Mark, Mark | None, list[int]]
"""Marks of the begin and the end of a reduction, and the places of its tensors."""


@dataclass(slots=True)
class FinishedStep:
    """A step whose marks have been taken and may not be readable yet.

    ``ready`` holds None for a gradient that was not produced; ``blocked`` is None where the
    blocked time is unknown, and ``waits`` what each blocked time was for. ``has_evaluation`` says
    that the rank also evaluated in the step.
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

    def marks_to_read(self) -> Iterator[Mark]:
        """All marks but the begin, some of them more than once."""
        yield self.end
        for _, begin, end in self.phases:
            yield begin
            yield end
        for begin, end in self.blocked or ():
            yield begin
            yield end
        yield from (wait.submitted for wait in self.waits if wait.submitted is not None)
        yield from (mark for mark in self.ready if mark is not None)
        for begin, end, _ in self.buckets:
            yield from (mark for mark in (begin, end) if mark is not None)


class StepWriter:
    """Passes steps on in their order as soon as their marks can be read without waiting.

    Args:
        take: Takes the line of each step.
        source: Where the marks come from.
    """

    def __init__(self, take: Callable[[StepLine], None], source: TimeSource) -> None:
        self._take = take
        self._source = source
        self._unread: deque[FinishedStep] = deque()

    def add(self, step: FinishedStep) -> None:
        """Take a step, and write the steps whose marks can be read.

        Where a GPU is more than ``MAX_UNREAD_STEPS`` behind, this waits for the oldest step.

        Raises:
            OSError: The recorder file took no more.
        """
        self._unread.append(step)
        while self._unread:
            oldest = self._unread[0]
            if not self._source.is_passed(oldest.end):
                if len(self._unread) <= MAX_UNREAD_STEPS:
                    return
                self._source.wait_for(oldest.end)
            self._write(self._unread.popleft())

    def write_rest(self) -> None:
        """Wait for the remaining steps and write them.

        Raises:
            OSError: The recorder file took no more.
        """
        while self._unread:
            step = self._unread.popleft()
            self._source.wait_for(step.end)
            self._write(step)

    def _write(self, step: FinishedStep) -> None:
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
            line["waits"] = [
                (
                    wait.kind,
                    NOT_SUBMITTED if wait.submitted is None else offset(wait.submitted),
                    wait.num_ranks,
                )
                for wait in step.waits
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
        if step.loss is not None:
            line["loss"] = float(step.loss)
        self._take(line)
        self._source.recycle(step.marks_to_read())
