"""The parts of a recorder: one for each purpose of a session."""

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from hvdprof.collect.engines.ddp_reduction import CommHook, recorded_hook
from hvdprof.collect.engines.torch_types import Model, Optimizer
from hvdprof.collect.guarded_context import Guarded, GuardedContext, guarded
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT, SegmentRecording, TimelineSwitch
from hvdprof.collect.session import GradientCalls, LineCalls, Piece, StepCalls, WaitCalls
from hvdprof.collect.step_recording import StepRecording
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_marks import (
    COLLECTIVE_PHASE,
    UNKNOWN_COLLECTIVE,
    Collective,
    Number,
    StepMarks,
    WaitMarks,
)
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, USER, RecorderLine

GiveUp = Callable[[Exception], None]


class RecordedSteps(Guarded, StepCalls):
    """Steps and their phases."""

    def __init__(
        self,
        give_up: GiveUp,
        steps: StepRecording,
        segments: SegmentRecording,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(give_up)
        self._steps = steps
        self._marks = steps.marks
        self._segments = segments
        self._clock = clock
        self._step_context = GuardedContext(self._begin, self._end)
        self._phase_contexts: dict[str, GuardedContext] = {}

    def step(self, samples: int, warmup: bool) -> AbstractContextManager[None]:
        """A context; its line is written at its end, or a step later on a GPU."""
        self._steps.expect(samples, warmup)
        return self._step_context

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A context; outside a step it records nothing."""
        context = self._phase_contexts.get(name)
        if context is None:
            context = GuardedContext(
                functools.partial(self._enter, name), functools.partial(self._leave, name)
            )
            self._phase_contexts[name] = context
        return context

    def evaluation(self, *, after_training: bool) -> AbstractContextManager[None]:
        """A context around a forward pass for evaluation; the step that it is in is marked."""
        return GuardedContext(
            lambda: self._enter_evaluation(after_training), lambda _: self._leave_evaluation()
        )

    @guarded
    def end_evaluation(self) -> None:
        """Write the open step as an evaluation after the last step; none is open then."""
        self._steps.end_evaluation(self._segments.current or IMPLICIT_SEGMENT)

    @guarded
    def samples(self, number: int) -> None:
        """Count more samples into the open step."""
        self._steps.add_samples(number)

    @guarded
    def loss(self, value: Number) -> None:
        """Store a loss, a number or a tensor with one element, for the line of the open step."""
        if self._marks.is_open:
            self._marks.loss = _readable_later(value)

    @guarded
    def passed(self, pieces: Sequence[Piece]) -> None:
        """Add phases of the open step that are over, where marks come from the host's clock."""
        # Given by the system's clock, from which that of the recording may differ on purpose.
        shift_ns = (
            self._clock() - time.monotonic_ns() if self._clock is not time.monotonic_ns else 0
        )
        for name, begin_ns, end_ns in pieces:
            self._marks.add_passed(name, begin_ns + shift_ns, end_ns + shift_ns)

    @guarded
    def extend_forward(self) -> None:
        """Let the forward pass reach to this moment, where nothing else was recorded since."""
        self._marks.extend_forward()

    @guarded
    def _begin(self) -> None:
        self._steps.check()
        self._segments.declare()
        self._steps.begin()

    @guarded
    def _end(self, ran_to_its_end: bool) -> None:
        self._steps.end(self._segments.current or IMPLICIT_SEGMENT, ran_to_its_end)

    @guarded
    def _enter(self, name: str) -> None:
        self._marks.enter(name)

    @guarded
    def _leave(self, name: str, _ran_to_its_end: bool) -> None:
        self._marks.leave(name)

    @guarded
    def _enter_evaluation(self, after_training: bool) -> None:
        self._marks.enter_evaluation(after_training=after_training)

    @guarded
    def _leave_evaluation(self) -> None:
        self._marks.leave_evaluation()


class RecordedWaits(Guarded, WaitCalls):
    """Collectives that the script calls itself."""

    def __init__(self, give_up: GiveUp, marks: StepMarks) -> None:
        super().__init__(give_up)
        self._marks = marks
        self._begin_mark: Mark | None = None
        self._depth = 0
        # Few for all: a script that reduces by hand waits once for each of its gradients.
        self._contexts = {
            kind: GuardedContext(self._begin, functools.partial(self._end, WaitMarks(kind)))
            for kind in (USER, GRAD_REDUCE)
        }

    def blocked(
        self, collective: Collective = UNKNOWN_COLLECTIVE, kind: str = USER
    ) -> AbstractContextManager[None]:
        """A context in which the rank waits for other ranks, to be entered at once."""
        if not self._marks.num_waits:
            self._marks.waits_in = collective
        return self._contexts[kind]

    @guarded
    def unseen(self) -> None:
        """Record the blocked time of the open step as missing."""
        self._marks.sees_blocked = False

    @guarded
    def count(self, change: int) -> None:
        """Count collectives in which the rank waits without a recorded time."""
        self._marks.num_waits += change

    @guarded
    def _begin(self) -> None:
        # A collective that consists of others is one wait, and so is an engine's that calls some.
        self._depth += 1
        self._marks.num_waits += 1
        if self._depth == 1:
            is_part = self._marks.num_engine_waits > 0
            self._begin_mark = None if is_part else self._marks.enter(COLLECTIVE_PHASE)

    @guarded
    def _end(self, wait: WaitMarks, _ran_to_its_end: bool) -> None:
        self._depth -= 1
        self._marks.num_waits -= 1
        if self._depth == 0 and self._begin_mark is not None:
            self._marks.add_blocked(self._begin_mark, self._marks.leave(COLLECTIVE_PHASE), wait)


class RecordedGradients(Guarded, GradientCalls):
    """Hooks on models and optimizers.

    Args:
        give_up: Ends the recording after a failure.
        steps: The steps that the hooks mark.
        segments: The open segment, at whose end its hooks are removed.
        source: Where marks come from.
    """

    def __init__(
        self, give_up: GiveUp, steps: StepRecording, segments: SegmentRecording, source: TimeSource
    ) -> None:
        super().__init__(give_up)
        self._marks, self._watches = steps.marks, steps.watches
        self._segments = segments
        self._source = source

    @guarded
    def watch(self, model: Model, optimizer: Optimizer) -> None:
        """Attach to an optimizer, for the segment or, outside one, until the end."""
        if self._watches.has(optimizer):
            # By `hvdprof run` already, before the script's own call.
            return
        if self._segments.is_declared:
            raise RuntimeError("watch() was called after the first step of a segment")
        self._watches.add(model, optimizer, lasts=self._segments.current is None)

    @guarded
    def unwatch(self) -> None:
        """Remove every hook."""
        self._watches.detach()

    def bucket_hook(self, hook: CommHook) -> CommHook:
        """The hook, with marks around the reduction of each bucket in a step."""
        return recorded_hook(hook, self._marks, self._source.now)


class RecordedLines(Guarded, LineCalls):
    """Lines of their own, and Horovod's timeline."""

    def __init__(
        self, give_up: GiveUp, file: LineWriter, switch: TimelineSwitch, clock: Callable[[], int]
    ) -> None:
        super().__init__(give_up)
        self._file = file
        self._switch = switch
        self._clock = clock

    @guarded
    def mark(self, name: str) -> None:
        """Write a named moment."""
        self._file.write({"kind": "mark", "name": str(name), "monotonic_ns": self._clock()})

    @guarded
    def note(self, line: RecorderLine) -> None:
        """Write a line."""
        self._file.write(line)

    def timeline(self, path: Path) -> AbstractContextManager[None]:
        """A context around which Horovod's timeline is started and stopped."""
        return GuardedContext(lambda: self._start(path), lambda _: self._stop(path))

    @guarded
    def _start(self, path: Path) -> None:
        self._switch.start(path)

    @guarded
    def _stop(self, path: Path) -> None:
        self._switch.stop(path)


def _readable_later(loss: Any) -> Number:
    """A loss that can be read with the marks of its step, without a wait."""
    if not getattr(loss, "is_cuda", False):
        number: Number = loss.detach() if hasattr(loss, "detach") else loss
        return number
    # Into pinned memory: a copy to any other lets the host wait until the GPU has come so far.
    host = loss.detach().new_empty(loss.shape, device="cpu", pin_memory=True)
    copied: Number = host.copy_(loss.detach(), non_blocking=True)
    return copied
