"""The marks of the open step: phases, blocked times, buckets, loss."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE

DATA_PHASE, FORWARD_PHASE, BACKWARD_PHASE = "data", "forward", "backward"
OPTIMIZER_PHASE = "optimizer"
BEFORE_UPDATE_PHASE = "before_update"
"""From the end of backward to the update: clipping, unscaling, norms of gradients."""

SHORTEST_GAP_NS = 20_000
"""A shorter one between two pieces is none: a loop that reduces by hand has one per tensor."""

COLLECTIVE_PHASE = "collective"
EVALUATION_PHASE = "evaluation"

MAX_PIECES = 20_000
"""Pieces of phases in one step; a step with more has no end, and would only fill the memory."""


Collective = tuple[str, str]
"""The call that a rank waits in, and the name that the script gave its tensor; empty if unknown."""

UNKNOWN_COLLECTIVE: Collective = ("", "")
OF_GRADIENTS: Collective = ("the reduction of gradients", "")


class Number(Protocol):
    """A number, or a tensor with one element."""

    def __float__(self) -> float:
        """Its value."""


@dataclass(slots=True)
class BucketMarks:
    """A bucket of gradients that are reduced together; ``end`` is None until they are.

    ``parameters`` are known by their identity alone.
    """

    parameters: tuple[Hashable, ...]
    begin: Mark
    end: Mark | None = None


@dataclass(frozen=True, slots=True)
class WaitMarks:
    """What a rank waited for, and when it submitted the collective; None where that is unknown.

    ``num_ranks`` ranks all wait for each other there; 0 where that is unknown.
    """

    kind: str
    submitted: Mark | None = None
    num_ranks: int = 0


GRADIENT_WAIT = WaitMarks(GRAD_REDUCE)


class StepMarks:
    """Marks of one step at a time; outside a step no mark is recorded.

    Phases may nest: the inner phase interrupts the outer one, which continues after it, so that
    the pieces of all phases never overlap and their lengths may be summed. ``num_waits`` counts
    the nested collectives in which the rank waits now, ``num_engine_waits`` those of them in which
    an engine waits for gradients, and ``waits_in`` is the outermost of them. ``is_wait_expected``
    says that a wait is to be marked at the end of the running backward. ``waits`` says of each
    interval of ``blocked`` what it was. ``sees_blocked`` is false where the rank may have been
    blocked in the step without a mark; ``has_evaluation`` says that the step contains an
    evaluation, in which the rank was blocked for ``evaluation_blocked_ns`` and in
    ``evaluation_waits``, of marks that are not readable yet.
    """

    __slots__ = (
        *("_after_backward", "_evaluation_from", "_now", "_open", "begin", "blocked", "buckets"),
        *("evaluation_blocked_ns", "evaluation_waits", "failure", "has_evaluation", "is_open"),
        *("is_overfull", "is_wait_expected", "loss", "num_engine_waits", "num_waits", "phases"),
        *("sees_blocked", "waits", "waits_in"),
    )

    def __init__(self, source: TimeSource) -> None:
        self._now = source.now
        self.is_open = self.is_overfull = False
        self.num_waits = self.num_engine_waits = 0
        self.waits_in = UNKNOWN_COLLECTIVE
        self.is_wait_expected = False
        self.failure: Exception | None = None
        self._clear()

    def _clear(self) -> None:
        self.begin: Mark = None
        self.phases: list[tuple[str, Mark, Mark]] = []
        self.blocked: list[tuple[Mark, Mark]] = []
        self.waits: list[WaitMarks] = []
        self.sees_blocked = True
        self.has_evaluation = False
        self.evaluation_waits: list[tuple[Mark, Mark]] = []
        self.evaluation_blocked_ns = 0
        self._evaluation_from: tuple[int, int, Mark] = (0, 0, None)
        self.buckets: list[BucketMarks] = []
        self.loss: Number | None = None
        self._open: list[tuple[str, Mark]] = []
        self._after_backward: int | None = None

    def open(self, begin: Mark) -> None:
        """Start a step; what remains of an unfinished step is dropped."""
        self._clear()
        self.num_waits = self.num_engine_waits = 0
        # Also where an exception ended the last backward.
        self.is_wait_expected = False
        self.begin = begin
        self.is_open, self.is_overfull = True, False

    def close(self, end: Mark) -> None:
        """End the step, and with it each phase that is still open."""
        while self._open:
            self._leave_innermost(end)
        self.is_open = False

    def drop(self) -> None:
        """End the step and forget its marks."""
        self._clear()
        self.is_open = False

    def enter(self, name: str) -> Mark | None:
        """A phase begins; the mark of its begin, None outside a step."""
        if not self.is_open:
            return None
        if len(self.phases) >= MAX_PIECES:
            self.drop()
            self.is_overfull = True
            return None
        mark = self._now()
        since = mark
        if name == OPTIMIZER_PHASE and not self._open:
            self._fill_before_update(mark)
        if self._open and self._open[-1][0] == name:
            since = self._open[-1][1]
        elif self._open:
            self.phases.append((*self._open[-1], mark))
        self._open.append((name, since))
        return mark

    def leave(self, name: str) -> Mark | None:
        """A phase ends; the mark of its end, None where it did not begin in this step."""
        # An exception that the script caught may have left inner phases open.
        while self._open:
            mark = self._now()
            if self._leave_innermost(mark) == name:
                return mark
        return None

    def extend_forward(self) -> None:
        """Let the forward pass reach to this moment, where nothing else was recorded since.

        Between the call of a model and backward a script computes its loss. Where it calls no
        model, as with functions and parameters of its own, the forward pass begins after the data.
        """
        if not self.is_open or not self.phases:
            return
        name, begin, end = self.phases[-1]
        if self._open and self._open[-1][1] is not end:
            return
        if name == FORWARD_PHASE:
            self.phases.pop()
        elif name == DATA_PHASE and self._is_first_pass():
            begin = end
        else:
            return
        mark = self._now()
        self.phases.append((FORWARD_PHASE, begin, mark))
        if self._open:
            self._open[-1] = (self._open[-1][0], mark)

    def enter_evaluation(self, *, after_training: bool) -> None:
        """A forward pass for evaluation begins.

        Args:
            after_training: Whether a pass for training came before it in the step. Otherwise all
                of the step so far belongs to the evaluation, such as its batches.
        """
        before = (len(self.phases), len(self.blocked)) if after_training else (0, 0)
        self._evaluation_from = (*before, self.enter(EVALUATION_PHASE))

    def leave_evaluation(self) -> None:
        """The pass ends; with what belongs to it, it becomes one piece of the evaluation."""
        end = self.leave(EVALUATION_PHASE)
        if end is None:
            return
        # A long evaluation has thousands of batches and metrics, none of them of the training.
        num_phases, num_blocked, begin = self._evaluation_from
        if self._open:
            begin = self._open[-1][1]
        begin = next((piece[1] for piece in self.phases[num_phases:]), begin)
        self.phases[num_phases:] = [(EVALUATION_PHASE, begin, end)]
        if self._open:
            self._open[-1] = (self._open[-1][0], end)
        for begin_wait, end_wait in self.blocked[num_blocked:]:
            # A number at once: a long evaluation reduces thousands of metrics.
            if isinstance(begin_wait, int) and isinstance(end_wait, int):
                self.evaluation_blocked_ns += end_wait - begin_wait
            else:
                self.evaluation_waits.append((begin_wait, end_wait))
        del self.blocked[num_blocked:], self.waits[num_blocked:]
        self.has_evaluation = True

    def innermost(self) -> str:
        """The innermost open phase, empty outside phases; for any thread."""
        last = self._open[-1:]
        return last[0][0] if last else ""

    def engine_waits(self, change: int) -> None:
        """An engine begins (1) or ends (-1) to wait; collectives that it calls are part of it."""
        if change > 0 and not self.num_waits:
            self.waits_in = OF_GRADIENTS
        self.num_waits += change
        self.num_engine_waits += change

    def add_blocked(
        self, begin: Mark | None, end: Mark | None, wait: WaitMarks = GRADIENT_WAIT
    ) -> None:
        """The rank was blocked from one mark to another; dropped where one of them is None."""
        if begin is not None and end is not None:
            self.blocked.append((begin, end))
            self.waits.append(wait)

    def add_passed(self, name: str, begin_ns: int, end_ns: int) -> None:
        """Add a phase that is over; within an open phase only its blocked time counts."""
        begin = max(begin_ns, self.begin) if self.is_open else end_ns
        if end_ns <= begin:
            return
        if not self._open:
            self.phases.append((name, begin, end_ns))
        if name == COLLECTIVE_PHASE:
            self.add_blocked(begin, end_ns)

    def _is_first_pass(self) -> bool:
        """Whether no forward pass was seen since the last backward, or in the step."""
        for name, _, _ in reversed(self.phases):
            if name in (FORWARD_PHASE, BACKWARD_PHASE):
                return name == BACKWARD_PHASE
        return True

    def _leave_innermost(self, mark: Mark) -> str:
        name, since = self._open.pop()
        outer = self._open[-1][0] if self._open else None
        # A phase within one of its own name is not a piece of its own.
        if outer != name:
            self.phases.append((name, since, mark))
            if outer is not None:
                self._open[-1] = (outer, mark)
            elif name == BACKWARD_PHASE:
                self._after_backward = len(self.phases) - 1
        return name

    def _fill_before_update(self, now: Mark) -> None:
        """Let the time since backward that lies in no phase be one: an update begins now."""
        if self._after_backward is None or self._after_backward >= len(self.phases):
            return
        pieces = self.phases[self._after_backward :]
        filled, end = [pieces[0]], pieces[0][2]
        for piece in (*pieces[1:], (OPTIMIZER_PHASE, now, now)):
            if _is_gap(end, piece[1]):
                filled.append((BEFORE_UPDATE_PHASE, end, piece[1]))
            filled.append(piece)
            end = piece[2]
        self.phases[self._after_backward :] = filled[:-1]
        # A script with an optimizer per parameter makes thousands of updates in a step.
        self._after_backward = len(self.phases) - 1


def _is_gap(end: Mark, begin: Mark) -> bool:
    """Whether time worth a piece lies between two; marks of a GPU are not comparable yet."""
    if isinstance(end, int) and isinstance(begin, int):
        return begin - end >= SHORTEST_GAP_NS
    return begin is not end
