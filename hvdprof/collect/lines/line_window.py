"""Samples of a window of steps, added up, and their way into a file of bounded size."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from hvdprof.collect.lines.sampler import PlaceName
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.recording.line_format import OTHER_PLACE, CallLine, SampledLine, SamplingLine

HOUR_NS = 3_600_000_000_000
ROW_BYTES, PLACE_BYTES, PHASE_BYTES, HEAD_BYTES = 18, 30, 70, 200
"""Bounds of what a count, a place without its names, a phase, and the rest of a line take."""

LEAST_BYTES = HEAD_BYTES + 8 * ROW_BYTES
"""Room without which no window is written."""

LAST_BYTES = 4096
"""What the last line of a process may take beyond the bound."""


def sampling_line(rank: int, process: str, hz: float, now_ns: int) -> SamplingLine:
    """The first line of this process in a file of sampled lines."""
    return {
        "kind": "sampling",
        "rank": rank,
        "process": process,
        "pid": os.getpid(),
        "hz": hz,
        "monotonic_ns": now_ns,
    }


@dataclass(slots=True)
class LineWindow:
    """Samples by phase and place, of consecutive steps or of what lies between steps.

    ``phases`` holds for each its samples, its time, and the sums of gaps and delays of samples, ns.
    """

    segment: str
    step: int
    steps: int = 0
    start_ns: int = 0
    end_ns: int = 0
    phases: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def sample(self, phase: str, place: int, gap_ns: int, late_ns: int) -> None:
        """Count one sample."""
        self._add(phase, (1, 0, gap_ns, late_ns))
        self.counts[phase, place] = self.counts.get((phase, place), 0) + 1

    def spend(self, phase: str, time_ns: int) -> None:
        """Count time of a phase."""
        self._add(phase, (0, time_ns, 0, 0))

    def add(self, other: "LineWindow") -> None:
        """Add a later window of the same segment."""
        self.steps += other.steps
        self.end_ns = max(self.end_ns, other.end_ns)
        for phase, sums in other.phases.items():
            self._add(phase, sums)
        for key, number in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + number

    def _add(self, phase: str, sums: Sequence[int]) -> None:
        own = self.phases.setdefault(phase, [0, 0, 0, 0])
        for place, value in enumerate(sums):
            own[place] += value


class LineFile:
    """A file of sampled lines, whose size is bounded by the time since it was begun."""

    def __init__(
        self,
        file: LineWriter,
        names: Sequence[PlaceName],
        begin_ns: int,
        bytes_at_once: int,
        bytes_per_hour: int,
    ) -> None:
        self._file = file
        self._names = names
        self._begin_ns = begin_ns
        self._bounds = bytes_at_once, bytes_per_hour
        self._written: set[int] = set()

    def write(self, window: LineWindow, now_ns: int, *, is_last: bool = False) -> bool:
        """Write a window, its most frequent places by name; false where there is no room for it.

        Args:
            window: The window.
            now_ns: The time, by which the bound is.
            is_last: Let it exceed the bound by a little: no other follows.

        Raises:
            OSError: The file took no more.
        """
        room = self._room(now_ns) + (LAST_BYTES if is_last else 0)
        if room < LEAST_BYTES:
            return False
        phases = list(window.phases)
        index = {phase: place for place, phase in enumerate(phases)}
        left = room - HEAD_BYTES - (PHASE_BYTES + ROW_BYTES) * len(phases)
        counts: dict[tuple[int, int], int] = {}
        new = []
        for (phase, place), number in sorted(
            window.counts.items(), key=lambda counted: -counted[1]
        ):
            is_new = place not in self._written and place != OTHER_PLACE
            size = ROW_BYTES + (self._size_of(place) if is_new else 0)
            fits = size <= left
            if fits:
                left -= size
            if fits and is_new:
                self._written.add(place)
                new.append(place)
            key = index[phase], place if fits else OTHER_PLACE
            counts[key] = counts.get(key, 0) + number
        line: SampledLine = {
            "kind": "lines",
            "segment": window.segment,
            "step": window.step,
            "steps": window.steps,
            "start_ns": window.start_ns,
            "end_ns": window.end_ns,
            "phases": [
                (phase, samples, time_ns, gap_ns, late_ns)
                for phase, (samples, time_ns, gap_ns, late_ns) in window.phases.items()
            ],
            "places": [(place, *self._names[place]) for place in new],
            "counts": [(*key, number) for key, number in counts.items()],
        }
        self._file.write(line)
        return True

    def has_room(self, now_ns: int) -> bool:
        """Whether a window may be written."""
        return self._room(now_ns) >= LEAST_BYTES

    def write_call(self, line: CallLine, now_ns: int) -> None:
        """Write a named call, or drop it where there is no room.

        Raises:
            OSError: The file took no more.
        """
        if self._room(now_ns) >= HEAD_BYTES + len(line["file"]) + len(line["detail"]):
            self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _room(self, now_ns: int) -> int:
        at_once, per_hour = self._bounds
        return at_once + per_hour * (now_ns - self._begin_ns) // HOUR_NS - self._file.size_bytes

    def _size_of(self, place: int) -> int:
        file, _, function, leaf, stage = self._names[place]
        return PLACE_BYTES + len(f"{file}{function}{leaf}{stage}".encode("utf-8", "replace"))
