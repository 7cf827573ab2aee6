"""The recorder of one rank: what the calls of a script do while something is recorded.

A failure of the recorder itself never reaches the script: it ends the recording, with one line
on stderr and, where the disk still takes it, a ``problem`` line.
"""

import atexit
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from hvdprof.collect.clock.clock_exchange import ClockTurns
from hvdprof.collect.engines.torch_collectives import COLLECTIVES, CollectiveWaits
from hvdprof.collect.guarded_context import Guarded, GuardedContext, guarded, print_problem
from hvdprof.collect.host_facts import loaded_torch_distributed
from hvdprof.collect.recorder_parts import (
    RecordedGradients,
    RecordedLines,
    RecordedSteps,
    RecordedWaits,
)
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT, SegmentRecording, TimelineSwitch
from hvdprof.collect.session import Session, SilentSession
from hvdprof.collect.standing import Moment, Standing
from hvdprof.collect.step_recording import StepCounter, StepRecording
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_marks import StepMarks
from hvdprof.collect.steps.step_profile import StepProfile
from hvdprof.collect.steps.time_source import HostClock, TimeSource
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE
from hvdprof.rundir.recording.recorder_format import ClockLine, StepLine


class Recorder(Guarded, Session):
    """Writes what a script calls into the recorder file of its rank, from its begin to its end.

    Args:
        file: The recorder file, with its header in it.
        source: Where the marks of steps come from.
        clocks: The clock exchanges of the job.
        on_end: Called once when the recording has ended, with the session that succeeds it.
        clock: The monotonic clock, ns.
        is_light: Whether windows of steps are written instead of steps and their gradients.

    Attributes:
        is_on_host: Whether marks of steps come from the host's clock.
        at_end: Called when the recording ends; raises nothing.
    """

    def __init__(
        self,
        file: LineWriter,
        source: TimeSource,
        clocks: ClockTurns,
        on_end: Callable[[Session], None],
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        is_light: bool = False,
    ) -> None:
        super().__init__(self.give_up)
        self._file = file
        self.is_on_host = isinstance(source, HostClock)
        self.at_end: list[Callable[[], None]] = []
        self._clock = clock
        self._clocks = clocks
        self._on_end = on_end
        self._has_ended = self._has_failed = False
        self._switch = TimelineSwitch(file, clock, self._report_timeline)
        self._recording = StepRecording(file, source, self._report, is_light=is_light)
        self._collectives = _collectives(self._recording.marks, source)
        self._segments = SegmentRecording(file, self._recording, source, clock)
        self.steps = RecordedSteps(self.give_up, self._recording, self._segments, clock)
        self.waits = RecordedWaits(self.give_up, self._recording.marks)
        self.gradients = RecordedGradients(self.give_up, self._recording, self._segments, source)
        self.lines = RecordedLines(self.give_up, file, self._switch, clock)
        # For a script that ends without stop().
        atexit.register(self._write_passed)

    def segment(self, segment_id: str) -> AbstractContextManager[None]:
        """A context; hooks that were attached in it are removed at its end."""
        return GuardedContext(lambda: self._begin_segment(segment_id), self._end_segment)

    @guarded
    def exchange_clocks(self, when: str) -> None:
        """Compare this rank's clock with rank 0's; a failure does not end the recording."""
        try:
            reading = self._clocks.take()
        except OSError as error:
            self._report(f"no clock exchange at the {when}: {error}")
            return
        line: ClockLine = {
            "kind": "clock",
            "when": when,
            "method": reading.method,
            "monotonic_ns": reading.monotonic_ns,
            "offset_ns": reading.offset_ns,
            "error_ns": reading.error_ns,
            "min_rtt_ns": reading.min_rtt_ns,
            "num_exchanges": reading.num_exchanges,
        }
        self._file.write(line)

    def standing(self) -> Standing:
        """Where this rank is now; for another thread, which may see a step in between."""
        marks = self._recording.marks
        readiness = self._recording.watches.readiness()
        return Standing(
            segment=self._segments.current or "",
            step=self._recording.number,
            is_open=marks.is_open,
            waits=marks.num_waits > 0,
            collective=" ".join(filter(None, marks.waits_in)) if marks.num_waits else "",
            phase=marks.innermost(),
            ready=[name for name, is_ready in readiness if is_ready],
            missing=[name for name, is_ready in readiness if not is_ready],
            ended=self._has_ended,
            failed=self._has_failed,
        )

    def moment(self) -> Moment:
        """Where the training is now; as ``standing``, in less time."""
        recording, marks = self._recording, self._recording.marks
        phase = BLOCKED_PHASE if marks.num_waits > 0 else marks.innermost()
        return Moment(
            self._segments.current or IMPLICIT_SEGMENT,
            recording.number if marks.is_open else -1,
            phase,
            recording.thread,
        )

    def finished(self) -> "deque[StepLine]":
        """The lines of steps from here on, for another thread that takes them out."""
        return self._recording.finished()

    def profile_steps(self, path: Path, first_step: int) -> None:
        """Let torch.profiler record some steps from one on into a file; for another thread.

        Raises:
            RuntimeError: It does so already.
        """
        if self._recording.profile is not None and not self._recording.profile.is_over:
            raise RuntimeError("other steps are being profiled")
        profile = StepProfile(path, first_step, self._report)
        self.at_end.append(profile.end)
        self._recording.profile = profile

    def count_flops(self, counter: StepCounter) -> None:
        """Let a counter see the begin and end of each step."""
        self.at_end.append(counter.end)
        self._recording.flops = counter

    def report_problem(self, message: str) -> None:
        """Report what failed beside the recording; for any thread.

        Raises:
            OSError: The recorder file took no more.
        """
        self._report(message)

    def write_at_rest(self) -> None:
        """Write the short steps that still wait for it; for another thread, raises nothing.

        Where a rank hangs, or trains no more for a while, nothing is left that a kill would lose.
        On a GPU they wait on: to ask for its events would end the capture of a graph.
        """
        try:
            if self.is_on_host:
                self._recording.write_passed()
        except Exception as error:
            # It ends the recording in the thread that trains, whose hooks may be running.
            self._recording.marks.failure = error

    @guarded
    def abandon(self) -> None:
        """Close the file of a rank that fails: no end of the segment, no exchange."""
        if not self._has_ended:
            self._recording.write_rest()
            self._has_failed = True
            self._end(Session())

    @guarded
    def break_off(self) -> None:
        """End a complete recording of a rank whose peers are gone: without asking Horovod."""
        self._switch.forget()
        self._end_segment(True)
        self._write_end()

    @guarded
    def stop(self) -> None:
        """End the recording: last lines, clock exchange, hooks removed, file closed."""
        self._end_segment(True)
        self.exchange_clocks("end")
        self._write_end()

    def give_up(self, error: Exception) -> None:
        """End the recording after a failure; the exchanges of clocks continue."""
        if self._has_ended:
            return
        message = f"recording stopped: {type(error).__name__}: {error}"
        print_problem(f"{message}; the training continues")
        # The failure is reported: a second one, of the steps before it, would reach the training.
        with contextlib.suppress(Exception):
            self._recording.write_passed()
        # Where the file does not take this line either, stderr has it.
        with contextlib.suppress(OSError):
            self._file.write({"kind": "problem", "message": message})
        self._end(SilentSession(self._clocks))

    @guarded
    def _begin_segment(self, segment_id: str) -> None:
        self._segments.begin(segment_id)

    @guarded
    def _end_segment(self, ran_to_its_end: bool) -> None:
        if not self._has_ended:
            self._segments.end(ran_to_its_end)

    @guarded
    def _write_passed(self) -> None:
        self._recording.write_passed()

    def _report(self, message: str) -> None:
        print_problem(message)
        self._file.write({"kind": "problem", "message": message})

    def _report_timeline(self, message: str) -> None:
        print_problem(message)
        self._file.write({"kind": "problem", "message": message, "about": "timeline"})

    def _write_end(self) -> None:
        if not self._has_ended:
            # Before the line by which a watcher takes all of it for written.
            self._act_at_end()
            self._file.write({"kind": "end", "monotonic_ns": self._clock()})
            self._end(Session())

    def _act_at_end(self) -> None:
        while self.at_end:
            self.at_end.pop(0)()

    def _end(self, successor: Session) -> None:
        self._has_ended = True
        atexit.unregister(self._write_passed)
        # First: what waits there may write into the file.
        self._act_at_end()
        self._recording.marks.drop()
        self._recording.watches.detach()
        if self._collectives is not None:
            COLLECTIVES.forget(self._collectives)
        self._file.close()
        self._on_end(successor)


def _collectives(marks: StepMarks, source: TimeSource) -> CollectiveWaits | None:
    """The waits in collectives of ``torch.distributed``; None without a process group of it."""
    if loaded_torch_distributed() is None:
        return None
    waits = CollectiveWaits(marks, source, sys.modules["torch"])
    COLLECTIVES.record(waits)
    return waits
