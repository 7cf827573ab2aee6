"""The recorder of one rank: what the calls of a script do while something is recorded.

A failure of the recorder itself never reaches the script: it ends the recording, with one line
on stderr and, where the disk still takes it, a ``problem`` line.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hvdprof.collect.clock.clock_exchange import ClockTurns
from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.engines.ddp_reduction import recorded_hook
from hvdprof.collect.guarded_context import Bracket, guarded
from hvdprof.collect.session import Piece, Session, SilentSession
from hvdprof.collect.step_recording import StepRecording
from hvdprof.collect.steps.line_writer import RecorderFile
from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE
from hvdprof.collect.steps.time_source import TimeSource
from hvdprof.collect.timeline_switch import TimelineSwitch
from hvdprof.collect.watchdog import Standing

__all__ = ["IMPLICIT_SEGMENT", "Recorder", "print_problem"]

IMPLICIT_SEGMENT = "main"


class Recorder(Session):
    """Writes what a script calls into the recorder file of its rank.

    Args:
        file: The recorder file, with its header in it.
        source: Where the marks of steps come from.
        clocks: The clock exchanges of the job.
        on_end: Called once when the recording has ended, with the session that takes over.
        clock: The monotonic clock, ns.
    """

    def __init__(
        self,
        file: RecorderFile,
        source: TimeSource,
        clocks: ClockTurns,
        on_end: Callable[[Session], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._file = file
        self._clock = clock
        self._source = source
        self._clocks = clocks
        self._on_end = on_end
        self._steps = StepRecording(file, source, self._report)
        self._marks, self._watches = self._steps.marks, self._steps.watches
        self._timeline = TimelineSwitch(file, clock, self._report)
        self._segment: str | None = None
        self._segment_begin_ns = 0
        self._is_declared = False
        self._declared_bytes: list[int] = []
        self._wait_begin: Any = None
        self._wait_depth = 0
        self._has_ended = False
        self._step_context = Bracket(self._begin_step, self._end_step)
        self._phase_contexts: dict[str, Bracket] = {}

    @guarded
    def exchange_clocks(self, when: str) -> None:
        """Compare this rank's clock with rank 0's; that it fails does not end the recording."""
        try:
            reading = self._clocks.take()
        except OSError as error:
            self._report(f"no clock exchange at the {when}: {error}")
            return
        self._file.write("clock", when=when, **asdict(reading))

    @guarded
    def watch(self, model: Any, optimizer: Any) -> None:
        """Attach to an optimizer, for the segment or, outside one, until the end."""
        if self._watches.has(optimizer):
            # By `hvdprof run` already, before the script's own call.
            return
        if self._is_declared:
            raise RuntimeError("watch() was called after the first step of a segment")
        self._watches.add(model, optimizer, lasts=self._segment is None)

    @guarded
    def unwatch(self) -> None:
        """Take every hook off."""
        self._watches.let_go()

    def segment(self, segment_id: str) -> AbstractContextManager[None]:
        """A context; what is watched in it is let go at its end."""
        return Bracket(lambda: self._begin_segment(segment_id), self._end_segment)

    def step(self, samples: int, warmup: bool) -> AbstractContextManager[None]:
        """A context; its line is written at its end, or a step later on a GPU."""
        self._steps.expect(samples, warmup)
        return self._step_context

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A context; outside a step it records nothing."""
        context = self._phase_contexts.get(name)
        if context is None:
            context = Bracket(lambda: self._enter(name), lambda _: self._leave(name))
            self._phase_contexts[name] = context
        return context

    def timeline(self, path: Path) -> AbstractContextManager[None]:
        """A context around which Horovod's timeline is started and stopped."""
        return Bracket(lambda: self._start_timeline(path), lambda _: self._stop_timeline(path))

    @guarded
    def mark(self, name: str) -> None:
        """Write a named moment."""
        self._file.write("mark", name=str(name), monotonic_ns=self._clock())

    @guarded
    def note(self, kind: str, **values: Any) -> None:
        """Write a line of a kind that the recorder itself knows nothing of."""
        self._file.write(kind, **values)

    @guarded
    def loss(self, value: Any) -> None:
        """Keep a loss, a number or a tensor with one element, for the line of the open step."""
        if self._marks.is_open:
            self._marks.loss = _on_its_way(value)

    @guarded
    def samples(self, number: int) -> None:
        """Count more samples into the open step."""
        self._steps.add_samples(number)

    def blocked(self) -> AbstractContextManager[None]:
        """A context in which the rank stands still for other ranks."""
        return Bracket(self._begin_wait, lambda _: self._end_wait())

    @guarded
    def blocked_unseen(self) -> None:
        """Record the blocked time of the open step as missing."""
        self._marks.sees_blocked = False

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
    def waits(self, change: int) -> None:
        """Count collectives in which the rank stands, which nobody brackets."""
        self._marks.num_waits += change

    def bucket_hook(self, hook: Any) -> Any:
        """The hook, with marks around the reduction of each bucket in a step."""
        return recorded_hook(hook, self._marks, self._source.now)

    def standing(self) -> Standing:
        """Where this rank is now; for another thread, which may see a step in between."""
        marks = self._marks
        handed = self._watches.handed()
        return Standing(
            segment=self._segment or "",
            step=self._steps.number,
            is_open=marks.is_open,
            waits=marks.num_waits > 0,
            phase=marks.innermost(),
            ready=[name for name, is_ready in handed if is_ready],
            missing=[name for name, is_ready in handed if not is_ready],
            ended=self._has_ended,
        )

    @guarded
    def abandon(self) -> None:
        """Close the file as a rank that fails leaves it: no end of the segment, no exchange."""
        if not self._has_ended:
            self._steps.write_rest()
            self._end(Session())

    @guarded
    def break_off(self) -> None:
        """End a complete recording of a rank whose peers are gone: without asking Horovod."""
        self._timeline.forget()
        if self._segment is not None:
            self._end_segment(True)
        if not self._has_ended:
            self._file.write("end", monotonic_ns=self._clock())
            self._end(Session())

    @guarded
    def stop(self) -> None:
        """End the recording: last lines, clock exchange, hooks off, file closed."""
        if self._segment is not None:
            self._end_segment(True)
        self.exchange_clocks("end")
        if not self._has_ended:
            self._file.write("end", monotonic_ns=self._clock())
            self._end(Session())

    @guarded
    def _begin_segment(self, segment_id: str) -> None:
        if self._segment == IMPLICIT_SEGMENT:
            self._end_segment(True)
        if self._segment is not None:
            raise RuntimeError(f"segment {segment_id!r} begins within segment {self._segment!r}")
        self._source.anchor()
        self._segment = segment_id
        self._segment_begin_ns = self._clock()
        self._steps.number = 0

    @guarded
    def _end_segment(self, ran_to_its_end: bool) -> None:
        if self._has_ended or self._segment is None:
            return
        if ran_to_its_end:
            self._declare(self._segment)
        learned = self._learned()
        self._watches.let_segment_go()
        self._steps.write_rest()
        # A segment that an exception ended has no end in the file.
        if ran_to_its_end:
            end_ns = self._clock()
            self._file.write("segment_end", id=self._segment, monotonic_ns=end_ns, **learned)
        self._segment = None
        self._is_declared = False

    def _declare(self, segment_id: str) -> None:
        # As late as the first step: the script watches its model after the segment has begun.
        if not self._is_declared:
            self._is_declared = True
            begin_ns, tensors = self._segment_begin_ns, self._watches.described()
            self._file.write("segment", id=segment_id, monotonic_ns=begin_ns, tensors=tensors)
            self._declared_bytes = _sent_bytes(tensors)

    def _learned(self) -> dict[str, Any]:
        """What is known of the tensors at the end of a segment and was not at its first step."""
        declared, now = self._declared_bytes, _sent_bytes(self._watches.described())
        return {"sent_bytes": now} if now != declared and len(now) == len(declared) else {}

    @guarded
    def _begin_step(self) -> None:
        self._steps.check()
        if self._segment is None:
            self._begin_segment(IMPLICIT_SEGMENT)
        self._declare(self._segment or IMPLICIT_SEGMENT)
        self._steps.begin()

    @guarded
    def _end_step(self, ran_to_its_end: bool) -> None:
        self._steps.end(self._segment or IMPLICIT_SEGMENT, ran_to_its_end)

    @guarded
    def _enter(self, name: str) -> None:
        self._marks.enter(name)

    @guarded
    def _leave(self, name: str) -> None:
        self._marks.leave(name)

    @guarded
    def _begin_wait(self) -> None:
        # A collective that is made of others is one wait, and so is an engine's that calls some.
        self._wait_depth += 1
        self._marks.num_waits += 1
        if self._wait_depth == 1:
            is_part = self._marks.num_engine_waits > 0
            self._wait_begin = None if is_part else self._marks.enter(COLLECTIVE_PHASE)

    @guarded
    def _end_wait(self) -> None:
        self._wait_depth -= 1
        self._marks.num_waits -= 1
        if self._wait_depth == 0 and self._wait_begin is not None:
            self._marks.add_blocked(self._wait_begin, self._marks.leave(COLLECTIVE_PHASE))

    @guarded
    def _start_timeline(self, path: Path) -> None:
        self._timeline.start(path)

    @guarded
    def _stop_timeline(self, path: Path) -> None:
        self._timeline.stop(path)

    def _report(self, message: str) -> None:
        print_problem(message)
        self._file.write("problem", message=message)

    def give_up(self, error: Exception) -> None:
        """End the recording after a failure; the exchanges of clocks go on."""
        if self._has_ended:
            return
        message = f"recording stopped: {type(error).__name__}: {error}"
        print_problem(f"{message}; the training goes on")
        # Where the file takes this line neither, stderr has it.
        with contextlib.suppress(OSError):
            self._file.write("problem", message=message)
        self._end(SilentSession(self._clocks))

    def _end(self, successor: Session) -> None:
        self._has_ended = True
        self._marks.drop()
        self._watches.let_go()
        self._file.close()
        self._on_end(successor)


def _sent_bytes(tensors: Sequence[dict[str, Any]]) -> list[int]:
    return [tensor["sent_bytes"] for tensor in tensors]


def _on_its_way(loss: Any) -> Any:
    """A loss that can be read with the marks of its step, for which nothing waits."""
    if not getattr(loss, "is_cuda", False):
        return loss.detach() if hasattr(loss, "detach") else loss
    # Into pinned memory: a copy to any other lets the host wait until the GPU has come so far.
    host = loss.detach().new_empty(loss.shape, device="cpu", pin_memory=True)
    return host.copy_(loss.detach(), non_blocking=True)
