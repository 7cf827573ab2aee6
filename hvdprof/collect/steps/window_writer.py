"""The steps of a light recording on their way into the recorder file: one line per window."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_sums import (
    BLOCKED,
    KindOfWait,
    WindowPace,
    after_last_wait,
    next_length,
    part_lengths,
    power_of_two_below,
    waits_by_kind,
)
from hvdprof.rundir.recording.line_format import LongestStep, Spread, WindowLine
from hvdprof.rundir.recording.recorder_format import StepLine

MOST_VALUES = 512
"""Values of a part from which every second one is dropped: quantiles of a window need no more."""

UNKNOWN = -1


@dataclass(slots=True)
class Lengths:
    """Sum and largest of some lengths, and enough of them for quantiles, in bounded memory."""

    total: int = 0
    largest: int = 0
    number: int = 0
    every: int = 1
    values: list[int] = field(default_factory=list)

    def add(self, length: int) -> None:
        """Count one length, ns."""
        self.total += length
        self.largest = max(self.largest, length)
        if self.number % self.every == 0:
            self.values.append(length)
            if len(self.values) >= 2 * MOST_VALUES:
                self.values = self.values[::2]
                self.every *= 2
        self.number += 1

    def spread(self, num_steps: int) -> Spread:
        """Sum, median, 95th percentile and largest over the steps of a window; 0 where missing."""
        missing = (num_steps - self.number) // self.every
        ordered = [0] * missing + sorted(self.values)
        last = len(ordered) - 1
        return self.total, ordered[last // 2], ordered[math.ceil(0.95 * last)], self.largest


@dataclass(slots=True)
class _Window:
    """The steps since the last line; times in ns."""

    segment: str
    first_step: int
    warmup: bool
    start_ns: int
    end_ns: int = 0
    last_step: int = 0
    num_steps: int = 0
    samples: int = 0
    lengths: Lengths = field(default_factory=Lengths)
    parts: dict[str, Lengths] = field(default_factory=dict)
    waits: dict[str, KindOfWait] | None = field(default_factory=dict)
    after_ns: int = 0
    longest: LongestStep = (0, -1, UNKNOWN, "", 0)
    loss: float = 0.0
    num_losses: int = 0
    evaluation_ns: int = -1
    evaluation_blocked_ns: int | None = None
    is_profiled: bool = False

    def add(self, line: StepLine) -> None:
        start_ns, length = line["start_ns"], line["dur_ns"]
        self.last_step, self.end_ns = line["step"], start_ns + length
        self.num_steps += 1
        self.samples += line["samples"]
        self.is_profiled |= line.get("profiled", False)
        own = part_lengths(line)
        blocked = None if line["blocked"] is None else sum(span[1] for span in line["blocked"])
        if length > self.longest[1]:
            phase = max(own, key=lambda name: own[name] - self._usual(name), default="")
            known = UNKNOWN if blocked is None else blocked
            self.longest = (line["step"], length, known, phase, own.get(phase, 0))
        self.lengths.add(length)
        for name, part in own.items():
            self.parts.setdefault(name, Lengths()).add(part)
        if blocked is None:
            self.waits = None
        elif self.waits is not None:
            self._add_waits(line, blocked)
        if line.get("loss") is not None:
            self.loss += line["loss"]
            self.num_losses += 1

    def _add_waits(self, line: StepLine, blocked_ns: int) -> None:
        assert self.waits is not None
        self.after_ns += after_last_wait(line)
        if not line["blocked"]:
            return
        self.parts.setdefault(BLOCKED, Lengths()).add(blocked_ns)
        for kind, wait in waits_by_kind(line).items():
            self.waits.setdefault(kind, KindOfWait()).add(wait)

    def _usual(self, name: str) -> int:
        """The mean of a part in the steps of the window so far, ns."""
        seen = self.parts.get(name)
        return seen.total // self.num_steps if seen is not None else 0

    def as_line(self) -> WindowLine:
        number = self.num_steps
        line: WindowLine = {
            "kind": "window",
            "segment": self.segment,
            "step": self.first_step,
            "last_step": self.last_step,
            "num_steps": number,
            "warmup": self.warmup,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "wall_ns": time.time_ns(),
            "samples": self.samples,
            "lengths": self.lengths.spread(number),
            "parts": {
                name: part.spread(number)
                for name, part in self.parts.items()
                if name != BLOCKED or self.waits is not None
            },
            "waits": None
            if self.waits is None
            else [
                (kind, wait.number, wait.own_ns, wait.blocked_ns, wait.num_ranks)
                for kind, wait in self.waits.items()
            ],
            "after_ns": self.after_ns,
            "longest": self.longest,
        }
        if self.evaluation_ns >= 0:
            line["evaluation_ns"] = self.evaluation_ns
            if self.evaluation_blocked_ns is not None:
                line["evaluation_blocked_ns"] = self.evaluation_blocked_ns
        if self.is_profiled:
            line["profiled"] = True
        if self.num_losses:
            line["loss"] = self.loss / self.num_losses
        return line


class WindowWriter:
    """Sums steps up and writes a line at the end of each window (``window_length``).

    A step with an evaluation is a window of its own: results exclude it where all ranks evaluate.
    So is one that is profiled, which results always exclude.

    Args:
        file: The recorder file.
        report: Called with a message where evaluations come too often for windows of their own.
        pace: How long windows should be.
    """

    def __init__(
        self, file: LineWriter, report: Callable[[str], None], pace: WindowPace | None = None
    ) -> None:
        self._file = file
        self._report = report
        self._pace = pace or WindowPace()
        self._window: _Window | None = None
        self._begin_ns: int | None = None
        self._part = ("", False)
        self._base = self._end = 0
        self._length = 1
        self._is_reported = False

    def add(self, *lines: StepLine) -> None:
        """Count finished steps, and write the windows that end with them.

        Raises:
            OSError: The recorder file took no more.
        """
        for line in lines:
            self._add(line)

    def _add(self, line: StepLine) -> None:
        if self._begin_ns is None:
            self._begin_ns = line["start_ns"]
        part = line["segment"], line["warmup"]
        if part != self._part:
            self._flush_if_allowed(line)
            self._part, self._base, self._length = part, line["step"], 1
        evaluates = bool(line.get("evaluation")) and self._has_room(line)
        is_apart = evaluates or line.get("profiled", False)
        if is_apart:
            self.flush()
        window = self._window or self._open(line)
        window.add(line)
        if evaluates:
            ends = [
                start + length for name, start, length in line["phases"] if name == "evaluation"
            ]
            window.evaluation_ns = max(ends, default=0)
            window.evaluation_blocked_ns = line.get("evaluation_blocked_ns")
        if is_apart:
            self.flush()
        elif self._is_over(window):
            elapsed_ns = window.end_ns - self._begin_ns
            if self._file.size_bytes >= self._pace.allowed_bytes(elapsed_ns):
                self._lengthen(window)
                return
            span_ns = window.end_ns - window.start_ns
            self._length = next_length(window.num_steps, span_ns, self._pace.target_ns(elapsed_ns))
            self.flush()

    def flush(self) -> None:
        """Write the open window, where there is one.

        Raises:
            OSError: The recorder file took no more.
        """
        if self._window is not None:
            window, self._window = self._window, None
            self._file.write(window.as_line())

    def _open(self, line: StepLine) -> _Window:
        self._window = _Window(line["segment"], line["step"], line["warmup"], line["start_ns"])
        self._end = self._next_end(line["step"], self._length)
        return self._window

    def _next_end(self, step: int, length: int) -> int:
        """The end of the window of that length that holds a step."""
        return self._base + ((step - self._base) // length + 1) * length

    def _lengthen(self, window: _Window) -> None:
        """Let the window stay open, to an end that other ranks also have."""
        self._length *= 2
        self._end = self._next_end(window.last_step + 1, self._length)

    def _flush_if_allowed(self, line: StepLine) -> None:
        """Write the open window before one of another kind; drop it where there is no room."""
        window = self._window
        elapsed_ns = line["start_ns"] - (self._begin_ns or 0)
        if window is None or self._file.size_bytes < self._pace.allowed_bytes(elapsed_ns):
            self.flush()
            return
        self._window = None
        self._report_once(
            f"steps {window.first_step} to {window.last_step} and maybe more are not recorded: "
            "segments or warm-up steps alternate too often for a light recording"
        )

    def _is_over(self, window: _Window) -> bool:
        assert self._begin_ns is not None
        elapsed_ns = window.end_ns - self._begin_ns
        if window.end_ns - window.start_ns > 2 * self._pace.target_ns(elapsed_ns):
            # Steps have become longer: the window ends at the next end of a shorter one.
            shorter = power_of_two_below(window.num_steps)
            self._end = min(self._end, self._next_end(window.last_step, shorter))
        return window.last_step + 1 >= self._end

    def _has_room(self, line: StepLine) -> bool:
        """Whether a window for an evaluation keeps the file within its bound."""
        elapsed_ns = line["start_ns"] - (self._begin_ns or 0)
        has_room = self._file.size_bytes < self._pace.allowed_bytes(elapsed_ns) // 2
        if not has_room:
            self._report_once(
                "evaluations come too often for a light recording: from step "
                f"{line['step']} on they are part of the step times"
            )
        return has_room

    def _report_once(self, message: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._report(message)
