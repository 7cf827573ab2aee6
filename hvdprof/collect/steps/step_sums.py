"""What a light recording keeps of a step, and how many steps one of its windows holds.

The parts are those of a full recording (``ingest.recorder.step_phases``): phases without the
blocked time in them. Tested by tests/collect/steps/test_step_sums.py.

Windows end at multiples of a power of two of steps, counted from the same step on every rank. So
the windows of ranks that choose different lengths nest, and the reader finds ends that all ranks
share without any communication. A window takes 1/64 of the time so far, between 0.25 s and 10 s: a
short run has enough of them, and a long one writes at a constant rate. Beside that, bytes are
bounded: where they would be exceeded, windows stay open. While `hvdprof watch` follows the job, a
window takes at most 1 s.
"""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.rundir.layout import watched_mark
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, Interval, Phase, StepLine

PHASE_PARTS = ("data", "forward", "backward", "before_update", "optimizer")
BLOCKED = "blocked"

SHORTEST_NS, LONGEST_NS = 250_000_000, 10_000_000_000
LONGEST_WATCHED_NS = 1_000_000_000
SHARE_OF_TIME = 64
MOST_STEPS = 1 << 20

BYTES_AT_ONCE, BYTES_PER_HOUR = 300_000, 600_000
"""Largest size of a file: the first, plus the second per hour; 0.9 MB after the first hour."""

BYTES_PER_WATCHED_HOUR = 4_000_000

_LOOK_NS = 5_000_000_000
_FORGET_NS = 30_000_000_000
_HOUR_NS = 3_600_000_000_000


@dataclass(slots=True)
class KindOfWait:
    """The waits of one kind: their number, own time before them, their length (ns), their ranks.

    ``num_ranks`` is 0 where unknown, or where it differs between the waits.
    """

    number: int = 0
    own_ns: int = 0
    blocked_ns: int = 0
    num_ranks: int = 0

    def add(self, other: "KindOfWait") -> None:
        """Count further waits of the kind."""
        if self.number and other.num_ranks != self.num_ranks:
            self.num_ranks = 0
        elif not self.number:
            self.num_ranks = other.num_ranks
        self.number += other.number
        self.own_ns += other.own_ns
        self.blocked_ns += other.blocked_ns


def part_lengths(line: StepLine, parts: Container[str] = PHASE_PARTS) -> dict[str, int]:
    """Length of each of the named phases that a step has, ns, blocked time in it excluded."""
    phases = sorted((phase for phase in line["phases"] if phase[2] > 0), key=_start)
    lengths: dict[str, int] = {}
    for name, _, length in phases:
        if name in parts:
            lengths[name] = lengths.get(name, 0) + length
    first, num = 0, len(phases)
    for start, length in sorted(line["blocked"] or ()):
        end = start + length
        # Phases never overlap: those that end before this wait end before all later ones.
        while first < num and phases[first][1] + phases[first][2] <= start:
            first += 1
        place = first
        while place < num and phases[place][1] < end:
            name, begin, span = phases[place]
            if name in lengths:
                lengths[name] -= min(end, begin + span) - max(start, begin)
            place += 1
    return lengths


def waits_by_kind(line: StepLine) -> dict[str, KindOfWait]:
    """The waits of a step by their kind, in the order of the first one of each."""
    blocked: Sequence[Interval] = line["blocked"] or ()
    named = line.get("waits")
    kinds = [(kind, ranks) for kind, _, ranks in named] if named else [(GRAD_REDUCE, 0)]
    if not named:
        kinds *= len(blocked)
    found: dict[str, KindOfWait] = {}
    released = 0
    for (start, length), (kind, num_ranks) in sorted(zip(blocked, kinds, strict=True)):
        one = found.get(kind)
        if one is None:
            one = found[kind] = KindOfWait(num_ranks=num_ranks)
        elif one.num_ranks != num_ranks:
            one.num_ranks = 0
        one.number += 1
        one.own_ns += max(start - released, 0)
        one.blocked_ns += length
        released = max(released, start + length)
    return found


def after_last_wait(line: StepLine) -> int:
    """Time from the end of the last wait to the end of the step, ns; 0 without a wait."""
    ends = [start + length for start, length in line["blocked"] or ()]
    return line["dur_ns"] - max(ends) if ends else 0


def _start(phase: Phase) -> int:
    return phase[1]


class WindowPace:
    """How long windows should be, and how large the file may have become.

    Args:
        folder: The folder of the recorder files; a watcher changes the time of a file in it.
        clock: Monotonic nanoseconds of the host.
    """

    def __init__(
        self, folder: Path | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._mark = None if folder is None else watched_mark(folder)
        self._clock = clock
        self._changed = 0
        self._looked_ns: int | None = None
        self._seen_ns: int | None = None
        self._watched_ns = 0

    def target_ns(self, elapsed_ns: int) -> int:
        """Length that a window should have, so long after the begin of the recording."""
        usual_ns = target_ns(elapsed_ns)
        return min(usual_ns, LONGEST_WATCHED_NS) if self.is_watched() else usual_ns

    def allowed_bytes(self, elapsed_ns: int) -> int:
        """Largest size of the recorder file, so long after the begin of the recording."""
        more = BYTES_PER_WATCHED_HOUR * self._watched_ns // _HOUR_NS
        return allowed_bytes(elapsed_ns) + more

    def is_watched(self) -> bool:
        """Whether the mark has changed lately: by this host's clock, not by that of its writer."""
        if self._mark is None:
            return False
        now_ns = self._clock()
        if self._looked_ns is None or now_ns - self._looked_ns >= _LOOK_NS:
            try:
                changed = self._mark.stat().st_mtime_ns
            except OSError:
                changed = self._changed
            if changed != self._changed:
                self._changed, self._seen_ns = changed, now_ns
            if self._is_recent(now_ns):
                self._watched_ns += min(now_ns - (self._looked_ns or now_ns), 2 * _LOOK_NS)
            self._looked_ns = now_ns
        return self._is_recent(now_ns)

    def _is_recent(self, now_ns: int) -> bool:
        return self._seen_ns is not None and now_ns - self._seen_ns < _FORGET_NS


def target_ns(elapsed_ns: int) -> int:
    """Length of a window without a watcher, so long after the begin of the recording."""
    return min(max(elapsed_ns // SHARE_OF_TIME, SHORTEST_NS), LONGEST_NS)


def allowed_bytes(elapsed_ns: int) -> int:
    """Largest size of the recorder file of a job without a watcher, so long after its begin."""
    return BYTES_AT_ONCE + BYTES_PER_HOUR * elapsed_ns // _HOUR_NS


def next_length(num_steps: int, span_ns: int, goal_ns: int) -> int:
    """The power of two of steps (at least 1) that takes at most ``goal_ns``, by the last window."""
    fitting = min(goal_ns * num_steps // max(span_ns, 1), MOST_STEPS)
    return 1 << max(fitting.bit_length() - 1, 0)


def power_of_two_below(number: int) -> int:
    """The largest power of two that is not larger than a number from 1 on."""
    return 1 << (number.bit_length() - 1)
