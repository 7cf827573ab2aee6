"""The steps of a rank, one at a time, from their marks to their lines in the recorder file."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from hvdprof.collect.engines.gradient_watch import WatchList
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_marks import MAX_PIECES, StepMarks
from hvdprof.collect.steps.step_profile import StepProfile
from hvdprof.collect.steps.step_sums import WindowPace
from hvdprof.collect.steps.step_writer import FinishedStep, LineTaker, StepWriter
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.collect.steps.window_writer import WindowWriter
from hvdprof.rundir.recording.recorder_format import StepLine

MOST_FINISHED = 8192
"""Finished steps that wait for the thread that takes them out; later ones replace the oldest."""


def _windows(file: LineWriter, report: Callable[[str], None]) -> WindowWriter:
    return WindowWriter(file, report, WindowPace(file.path.parent))


class StepCounter(Protocol):
    """Sees the begin and end of each step, in the thread that trains; raises nothing."""

    def begin(self, step: int, *, is_warmup: bool) -> None:
        """A step begins."""

    def end(self) -> None:
        """It ends."""


class StepRecording:
    """Opens, closes and numbers the steps of a segment; ``thread`` is the one that trains.

    ``profile`` records some of them with torch.profiler, ``flops`` counts the FLOPs of one, where
    that was asked for.

    Args:
        file: Takes their lines.
        source: Where their marks come from.
        report: Called with a message where steps are skipped.
        is_light: Whether windows of steps are written instead of steps and their gradients.
    """

    def __init__(
        self,
        file: LineWriter,
        source: TimeSource,
        report: Callable[[str], None],
        *,
        is_light: bool = False,
    ) -> None:
        self.marks = StepMarks(source)
        self.watches = WatchList(source, self.marks)
        self.number = 0
        self.thread = threading.get_ident()
        self._passed: deque[StepLine] | None = None
        self._file = file
        self._source = source
        self._report = report
        self._windows = _windows(file, report) if is_light else None
        self._keep: LineTaker = self._windows.add if self._windows else file.write
        self._writer = StepWriter(self._take, source)
        self._samples = 0
        self._warmup = False
        self._is_full_reported = False
        self.profile: StepProfile | None = None
        self.flops: StepCounter | None = None
        self._is_profiled = False

    @property
    def is_light(self) -> bool:
        """Whether windows of steps are written instead of steps and their gradients."""
        return self._windows is not None

    def expect(self, samples: int, warmup: bool) -> None:
        """Samples of the next step as far as they are known, and whether results exclude it."""
        self._samples, self._warmup = samples, warmup

    def add_samples(self, number: int) -> None:
        """Count more samples into the open step."""
        if self.marks.is_open:
            self._samples += number

    def check(self) -> None:
        """Raise the exception of a hook, and raise where a step is open."""
        self._raise_failure()
        if self.marks.is_open:
            raise RuntimeError("a step begins within a step")

    def finished(self) -> "deque[StepLine]":
        """The lines of steps from here on, for another thread that takes them out."""
        if self._passed is None:
            self._passed = deque(maxlen=MOST_FINISHED)
        return self._passed

    def begin(self) -> None:
        """Open a step."""
        self.thread = threading.get_ident()
        self.watches.begin_step()
        if self.flops is not None:
            self.flops.begin(self.number, is_warmup=self._warmup)
        self.marks.open(self._source.begin_step())
        # What the profiler takes to start and to stop is a part of steps that do not count.
        self._is_profiled = self.profile is not None and self.profile.begins(self.number)

    def end(self, segment: str, ran_to_its_end: bool) -> None:
        """Close the step, and write those whose marks can be read.

        Raises:
            OSError: The recorder file took no more.
            Exception: The exception of a hook.
        """
        if self.flops is not None:
            self.flops.end()
        self._raise_failure()
        marks = self.marks
        if marks.is_overfull:
            self._skip(ran_to_its_end)
        elif not marks.is_open or not ran_to_its_end:
            marks.drop()
        elif self._file.is_full:
            self._stop()
        else:
            self._finish(segment)

    def end_evaluation(self, segment: str) -> None:
        """Write the open step as an evaluation after the last step, and drop it.

        Nothing is written where it holds no evaluation. Waits for the steps before it.

        Raises:
            OSError: The recorder file took no more.
            Exception: The exception of a hook.
        """
        self._raise_failure()
        marks = self.marks
        if marks.is_open and marks.has_evaluation and not self._file.is_full:
            end = self._source.now()
            marks.close(end)
            self._writer.write_rest()
            self._file.write(self._writer.evaluation_line(self._finished(segment, end)))
        marks.drop()

    def write_passed(self) -> None:
        """Write the finished steps that can be written without waiting.

        Raises:
            OSError: The recorder file took no more.
        """
        self._writer.write_passed()

    def write_rest(self) -> None:
        """Wait for the remaining steps and write them, or the open window.

        Raises:
            OSError: The recorder file took no more.
        """
        self._writer.write_rest()
        if self._windows is not None:
            self._windows.flush()

    def _take(self, *lines: StepLine) -> None:
        self._keep(*lines)
        if self._passed is not None:
            self._passed.extend(lines)

    def _finish(self, segment: str) -> None:
        marks = self.marks
        end = self._source.now()
        marks.close(end)
        step = self._finished(segment, end)
        if self._windows is None:
            step.ready = self.watches.ready()
            step.buckets = [self.watches.placed(bucket) for bucket in marks.buckets]
        self.number += 1
        self._writer.add(step)

    def _finished(self, segment: str, end: Mark) -> FinishedStep:
        """The step of the marks, without gradients and buckets."""
        marks = self.marks
        return FinishedStep(
            segment=segment,
            number=self.number,
            # Without a number a step counts as one sample: rates are steps per second then.
            samples=int(self._samples) or 1,
            warmup=self._warmup,
            begin=marks.begin,
            end=end,
            phases=marks.phases,
            ready=[],
            blocked=marks.blocked if marks.sees_blocked else None,
            waits=marks.waits,
            buckets=[],
            loss=marks.loss,
            has_evaluation=marks.has_evaluation,
            evaluation_blocked_ns=marks.evaluation_blocked_ns,
            evaluation_waits=marks.evaluation_waits,
            is_profiled=self._is_profiled,
        )

    def _raise_failure(self) -> None:
        if self.marks.failure is not None:
            raise self.marks.failure

    def _skip(self, was_taken: bool) -> None:
        self.marks.is_overfull = False
        # Other ranks may have recorded it, and number theirs alike.
        self.number += was_taken
        self._report(
            f"a step was skipped: it has more than {MAX_PIECES} pieces of phases; does the script "
            "continue with another optimizer than its first?"
        )

    def _stop(self) -> None:
        self.marks.drop()
        if not self._is_full_reported:
            self._is_full_reported = True
            self._report(
                f"the recorder file has become large: steps from {self.number} on are not recorded"
            )
