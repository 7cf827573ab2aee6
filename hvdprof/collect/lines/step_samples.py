"""Samples of the training thread, sorted into steps and phases.

Where marks of steps come from the host's clock, a sample belongs to the phase in which its moment
lies once the step is over: a part of a step is known only then, such as the wait for other ranks.
On a GPU the marks are moments of the GPU, which the training thread runs ahead of: there the phase
is that in which the thread was, and its time is unknown.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hvdprof.collect.lines.line_window import LineFile, LineWindow
from hvdprof.collect.lines.sampler import SampleTaker
from hvdprof.collect.standing import Moment
from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE
from hvdprof.collect.steps.step_sums import part_lengths, target_ns
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE, OUTSIDE_PHASES, CallLine
from hvdprof.rundir.recording.recorder_format import StepLine

SHORTEST_NS = 2_000_000_000
"""Of a window: 40 samples at the usual rate."""

MOST_PENDING = 8192
"""Samples that wait for the end of their step, some minutes; then the live phase counts."""

TAKEN_AT_ONCE, MOST_AT_ONCE = 16, 256
"""Samples after which steps are sorted, and steps: in a loop that takes a third of the time."""

USUAL_OF, LEAST_USUAL, LOOK_EVERY = 64, 8, 16
"""Steps whose median is the usual length, the least of them, and how often it is computed."""

LONG = 2
"""A step that takes as many usual ones keeps its samples."""


class _Sample(NamedTuple):
    now_ns: int
    step: int
    phase: str
    place: int
    gap_ns: int
    late_ns: int


class StepSamples(SampleTaker):
    """Sums up the samples of a rank, window after window.

    Args:
        file: Takes the windows.
        finished: Steps that are over, in their order; another thread appends to it.
        moment: Says where the training is now.
        calls: The named calls that are over.
        is_on_host: Whether marks come from the host's clock.
        takes_turns: Whether the launch takes turns with others of hvdprof between its steps.
    """

    def __init__(
        self,
        file: LineFile,
        finished: deque[StepLine],
        moment: Callable[[], Moment],
        calls: Callable[[], Iterator[CallLine]],
        *,
        is_on_host: bool,
        takes_turns: bool = False,
    ) -> None:
        self._file = file
        self._takes_turns = takes_turns
        self._finished = finished
        self._moment = moment
        self._now = moment()
        self._calls = calls
        self._is_on_host = is_on_host
        self._pending: deque[_Sample] = deque()
        self._early = LineWindow("", -1)
        self._between = LineWindow("", -1)
        self._window: LineWindow | None = None
        self._is_warmup = False
        self._begin_ns = self._before_ns = 0
        self._goal_ns = SHORTEST_NS
        self._lengths: deque[int] = deque(maxlen=USUAL_OF)
        self._num_lengths = self._num_taken = 0
        self._usual_ns = 0

    def thread(self) -> int:
        """The thread that trains now; phase and step of the sample are of this moment, too."""
        self._now = self._moment()
        return self._now.thread

    def take(self, now_ns: int, place: int, gap_ns: int, late_ns: int) -> None:
        """Take a sample; now and then, sort those of the steps that are over.

        Raises:
            OSError: The file took no more.
        """
        self._begin_ns = self._begin_ns or now_ns
        moment = self._now
        phase = moment.phase or OUTSIDE_PHASES
        if len(self._pending) >= MOST_PENDING:
            early = self._pending.popleft()
            self._early.sample(early.phase, early.place, early.gap_ns, early.late_ns)
        self._pending.append(_Sample(now_ns, moment.step, phase, place, gap_ns, late_ns))
        self._num_taken += 1
        if self._num_taken % TAKEN_AT_ONCE == 0 or len(self._finished) >= MOST_AT_ONCE:
            self._settle(now_ns)

    def finish(self, now_ns: int) -> None:
        """Write what is left; samples after the last step lie outside steps.

        Raises:
            OSError: The file took no more.
        """
        self._settle(now_ns)
        segment = self._moment().segment
        self._between.segment = self._between.segment or segment
        self._between.add(self._early)
        for sample in self._pending:
            self._add_between(sample)
        self._write_window(now_ns, is_last=True)
        self._write_between(now_ns, is_last=True)
        self._file.close()

    def _settle(self, now_ns: int) -> None:
        while self._finished:
            self._finish_step(self._finished.popleft())
        for call in self._calls():
            self._file.write_call(call, now_ns)

    def _finish_step(self, line: StepLine) -> None:
        start_ns, length = line["start_ns"], line["dur_ns"]
        end_ns = start_ns + length
        part = line["segment"], line["warmup"]
        window = self._window
        if window is not None and (window.segment, self._is_warmup) != part:
            self._write_window(end_ns)
            self._lengths.clear()
            self._usual_ns = 0
        if self._between.segment != line["segment"]:
            self._write_between(end_ns)
            self._between.segment = line["segment"]
            self._before_ns = 0
        # Steps that a script marks by hand may leave time between them.
        gap_ns = max(start_ns - self._before_ns, 0) if self._before_ns else 0
        step = LineWindow(line["segment"], line["step"], 1, start_ns, end_ns, {}, {})
        self._sort(line, step)
        # Between its turns, a launch waits for others of hvdprof: that is no time of the job.
        self._before_ns = 0 if self._takes_turns else end_ns
        length += gap_ns
        if self._is_on_host:
            for phase, time_ns in part_times(line):
                step.spend(phase, time_ns)
            if gap_ns:
                step.spend(OUTSIDE_PHASES, gap_ns)
        is_long = self._usual_ns and length > LONG * self._usual_ns and step.counts
        self._note_length(length)
        if is_long and self._file.write(step, end_ns):
            return
        if self._window is None:
            self._window, self._is_warmup = step, line["warmup"]
        else:
            self._window.add(step)
        if end_ns - self._window.start_ns < self._goal_ns:
            return
        if self._file.has_room(end_ns):
            self._write_window(end_ns)
            self._write_between(end_ns)
            self._goal_ns = max(target_ns(end_ns - self._begin_ns), SHORTEST_NS)
        else:
            # It stays open.
            self._goal_ns *= 2

    def _sort(self, line: StepLine, step: LineWindow) -> None:
        """Count the samples of a step, with those since the one before it as outside phases."""
        if self._early.counts:
            step.add(self._early)
            self._early = LineWindow("", -1)
        while self._pending and not self._is_later(self._pending[0], line):
            sample = self._pending.popleft()
            is_before = self._is_before(sample, line)
            if is_before and not self._before_ns:
                self._add_between(sample)
                continue
            phase = phase_at(line, sample.now_ns) if self._is_on_host else sample.phase
            phase = OUTSIDE_PHASES if is_before else phase
            step.sample(phase, sample.place, sample.gap_ns, sample.late_ns)

    def _is_later(self, sample: _Sample, line: StepLine) -> bool:
        if self._is_on_host:
            return sample.now_ns >= line["start_ns"] + line["dur_ns"]
        return sample.step > line["step"]

    def _is_before(self, sample: _Sample, line: StepLine) -> bool:
        if self._is_on_host:
            return sample.now_ns < line["start_ns"]
        return sample.step != line["step"]

    def _add_between(self, sample: _Sample) -> None:
        between = self._between
        between.start_ns = between.start_ns or sample.now_ns
        between.end_ns = sample.now_ns
        between.sample(OUTSIDE_PHASES, sample.place, sample.gap_ns, sample.late_ns)

    def _write_window(self, now_ns: int, *, is_last: bool = False) -> None:
        """Write the open window; it is dropped where the file has no room for it."""
        window, self._window = self._window, None
        if window is not None:
            self._file.write(window, now_ns, is_last=is_last)

    def _write_between(self, now_ns: int, *, is_last: bool = False) -> None:
        between = self._between
        if between.counts and self._file.write(between, now_ns, is_last=is_last):
            self._between = LineWindow(between.segment, -1)

    def _note_length(self, length: int) -> None:
        self._lengths.append(length)
        self._num_lengths += 1
        enough = len(self._lengths) >= LEAST_USUAL
        if enough and (not self._usual_ns or self._num_lengths % LOOK_EVERY == 0):
            self._usual_ns = round(statistics.median(self._lengths))


def phase_at(line: StepLine, now_ns: int) -> str:
    """The phase of a finished step at a moment; ``blocked`` where the rank waited for others."""
    offset = now_ns - line["start_ns"]
    for start, length in line["blocked"] or ():
        if start <= offset < start + length:
            return BLOCKED_PHASE
    for name, start, length in line["phases"]:
        if start <= offset < start + length:
            # Where its blocked time is unknown, it is a phase as any other.
            return BLOCKED_PHASE if name == COLLECTIVE_PHASE else name
    return OUTSIDE_PHASES


def part_times(line: StepLine) -> list[tuple[str, int]]:
    """Phases of a finished step with their times, ns, as ``phase_at`` names them."""
    lengths = part_lengths(line, {name for name, _, _ in line["phases"]})
    blocked = sum(length for _, length in line["blocked"] or ())
    collective = lengths.pop(COLLECTIVE_PHASE, 0)
    lengths[BLOCKED_PHASE] = blocked + collective
    lengths[OUTSIDE_PHASES] = line["dur_ns"] - sum(lengths.values())
    return [(name, time_ns) for name, time_ns in lengths.items() if time_ns > 0]
