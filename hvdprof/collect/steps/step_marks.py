"""The marks of the step that is open: phases, blocked times, buckets, loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hvdprof.collect.steps.time_source import TimeSource

OPTIMIZER_PHASE = "optimizer"
COLLECTIVE_PHASE = "collective"

MAX_PIECES = 20_000
"""Pieces of phases in one step; one with more has no end, and would only fill the memory."""


@dataclass(slots=True)
class BucketMarks:
    """A bucket of gradients that were reduced together; ``end`` is None until they are."""

    parameters: tuple[Any, ...]
    begin: Any
    end: Any = None


class StepMarks:
    """Marks of one step at a time; outside a step nothing is kept.

    Phases may nest: the outer one is interrupted by the inner one and goes on after it, so that
    the pieces of all phases never overlap and their lengths may be summed. ``num_waits`` counts
    the collectives, one within the other, in which the rank stands right now, ``num_engine_waits``
    those of them in which an engine waits for gradients. ``sees_blocked`` is
    false where the rank may have stood still in the step without a mark.
    """

    __slots__ = (
        "_now",
        "_open",
        "begin",
        "blocked",
        "buckets",
        "failure",
        "is_open",
        "is_overfull",
        "loss",
        "num_engine_waits",
        "num_waits",
        "phases",
        "sees_blocked",
    )

    def __init__(self, source: TimeSource) -> None:
        self._now = source.now
        self.is_open = self.is_overfull = False
        self.num_waits = self.num_engine_waits = 0
        self.failure: Exception | None = None
        self._clear()

    def _clear(self) -> None:
        self.begin: Any = None
        self.phases: list[tuple[str, Any, Any]] = []
        self.blocked: list[tuple[Any, Any]] = []
        self.sees_blocked = True
        self.buckets: list[BucketMarks] = []
        self.loss: Any = None
        self._open: list[tuple[str, Any]] = []

    def open(self, begin: Any) -> None:
        """Start a step; what an unfinished one left behind is dropped."""
        self._clear()
        self.num_waits = self.num_engine_waits = 0
        self.begin = begin
        self.is_open, self.is_overfull = True, False

    def close(self, end: Any) -> None:
        """End the step; a phase that was never left ends with it."""
        while self._open:
            self._leave_innermost(end)
        self.is_open = False

    def drop(self) -> None:
        """End the step without keeping anything of it."""
        self._clear()
        self.is_open = False

    def enter(self, name: str) -> Any:
        """A phase begins; the mark of its begin, None outside a step."""
        if not self.is_open:
            return None
        if len(self.phases) >= MAX_PIECES:
            self.drop()
            self.is_overfull = True
            return None
        mark = self._now()
        since = mark
        if self._open and self._open[-1][0] == name:
            since = self._open[-1][1]
        elif self._open:
            self.phases.append((*self._open[-1], mark))
        self._open.append((name, since))
        return mark

    def leave(self, name: str) -> Any:
        """A phase ends; the mark of its end, None where it was not begun in this step."""
        # An exception that the script caught may have left inner phases open.
        while self._open:
            mark = self._now()
            if self._leave_innermost(mark) == name:
                return mark
        return None

    def innermost(self) -> str:
        """The phase that is open; empty where none is. May be asked from another thread."""
        last = self._open[-1:]
        return last[0][0] if last else ""

    def engine_waits(self, change: int) -> None:
        """An engine begins (1) or ends (-1) to wait; collectives that it calls are part of it."""
        self.num_waits += change
        self.num_engine_waits += change

    def add_blocked(self, begin: Any, end: Any) -> None:
        """The rank stood still from one mark to another; dropped where one of them is None."""
        if begin is not None and end is not None:
            self.blocked.append((begin, end))

    def add_passed(self, name: str, begin: Any, end: Any) -> None:
        """A phase is over that nobody entered; within an open one only its blocked time counts."""
        begin = max(begin, self.begin) if self.is_open else end
        if end <= begin:
            return
        if not self._open:
            self.phases.append((name, begin, end))
        if name == COLLECTIVE_PHASE:
            self.add_blocked(begin, end)

    def _leave_innermost(self, mark: Any) -> str:
        name, since = self._open.pop()
        outer = self._open[-1][0] if self._open else None
        # A phase within one of its own name is not a piece of its own.
        if outer != name:
            self.phases.append((name, since, mark))
            if outer is not None:
                self._open[-1] = (outer, mark)
        return name


def harmless(marks: StepMarks, hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook in the midst of the training: what it raises is kept as ``marks.failure``.

    It returns None then. Nothing else may be done there: torch runs through its hooks and cannot
    have any taken off meanwhile.
    """

    def called(*args: Any) -> Any:
        try:
            return hook(*args)
        except Exception as error:
            marks.failure = error
            return None

    return called
