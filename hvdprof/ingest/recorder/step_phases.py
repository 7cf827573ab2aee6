"""The parts of a recorded step, and the windows of steps of a light recording, as arrays."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.arrays import Int64s
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.rundir.recording.line_format import WindowLine
from hvdprof.rundir.recording.recorder_format import NOT_SUBMITTED, Interval, StepLine

NUM_STEP_PARTS = len(RECORDED_PARTS)
EVALUATION = "evaluation"
"""The phase of an evaluation that the recorder itself has seen."""

UNSEEN = -(2**62) - 1
"""In place of an unknown length: outside the whole numbers that a file may hold."""

PHASE_PARTS = ("data", "forward", "backward", "before_update", "optimizer")
SPREAD_PARTS = (*PHASE_PARTS, "blocked")

UNKNOWN = -1
"""In place of an unknown blocked time, and of an evaluation that a window does not have."""

COLUMNS = (
    *("step", "last_step", "num_steps", "warmup", "start_ns", "end_ns", "wall_ns", "samples"),
    *("after_ns", "is_seen", "evaluation_ns", "evaluation_blocked_ns"),
    *("sum_ns", "median_ns", "p95_ns", "max_ns"),
    *(f"{part}_{what}_ns" for part in SPREAD_PARTS for what in ("sum", "median", "p95", "max")),
    *("longest_step", "longest_ns", "longest_blocked_ns", "longest_phase", "longest_phase_ns"),
)
"""Whole numbers of a window; ``is_seen`` is 0 where waits may be unseen."""

WAIT_COLUMNS = ("row", "kind", "number", "own_ns", "blocked_ns", "num_ranks")


def part_lengths(line: StepLine, recorded: Sequence[tuple[str, int, int]]) -> tuple[int, ...]:
    """The length of each of ``model.causes.RECORDED_PARTS`` in a step, ns, or ``UNSEEN``.

    Blocked time is subtracted from the phase in which it lies, so that no time counts twice;
    ``outside`` is the rest of the step, so that the parts sum to its length exactly (it is
    negative where a script nests its phases). Unknown blocked time is part of it.

    Args:
        line: A ``step`` line.
        recorded: Its ``intervals``.

    Raises:
        ValueError: A length is out of range.
    """
    num_phases = len(line["phases"])
    pieces = [
        (name, offset, offset + length)
        for place, (name, offset, length) in enumerate(recorded)
        if name != "blocked" or place >= num_phases
    ]
    lengths = dict.fromkeys(RECORDED_PARTS, 0) | summed_lengths(pieces)
    lengths["outside"] = whole(line["dur_ns"]) - sum(lengths.values())
    whole(min(lengths.values())), whole(max(lengths.values()))
    if line["blocked"] is None:
        lengths["blocked"] = UNSEEN
    return tuple(lengths.values())


def summed_lengths(pieces: Sequence[tuple[str, int, int]]) -> dict[str, int]:
    """The length in ns that pieces of a step add to each of its parts, without ``outside``.

    Args:
        pieces: Name, start and end of phases and blocked times; those of other names add nothing.
    """
    blocked = [(start, stop) for name, start, stop in pieces if name == "blocked"]
    lengths: dict[str, int] = {}
    for name, start, stop in pieces:
        if name not in RECORDED_PARTS or name == "outside":
            continue
        length = stop - start
        for first, last in blocked if name != "blocked" else ():
            if first < stop and last > start:
                length -= min(stop, last) - max(start, first)
        lengths[name] = lengths.get(name, 0) + length
    return lengths


def intervals(line: StepLine) -> list[tuple[str, int, int]]:
    """Name, offset and length in ns of every phase and blocked time of a ``step`` line.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    named = [(str(name), whole(offset), whole(length)) for name, offset, length in line["phases"]]
    blocked = _known_blocked(line)
    return named + [("blocked", whole(offset), whole(length)) for offset, length in blocked]


def waits(line: StepLine) -> list[tuple[str, int, int, int, int]]:
    """Kind, offset, length, submission and ranks of every wait whose kind a ``step`` line says.

    Times are in ns; the offset of the submission is ``UNSEEN`` where unknown.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    kinds, blocked = line.get("waits", ()), _known_blocked(line)
    if not kinds:
        return []
    if len(kinds) != len(blocked):
        raise ValueError("every blocked time has a kind, or none")
    return [
        (
            str(kind),
            whole(offset),
            whole(length),
            UNSEEN if submitted == NOT_SUBMITTED else whole(submitted),
            whole(num_ranks),
        )
        for (kind, submitted, num_ranks), (offset, length) in zip(kinds, blocked, strict=True)
    ]


def evaluation_end(line: StepLine, pieces: Sequence[tuple[str, int, int]]) -> int:
    """The end of the last evaluation after the begin of the step, ns; -1 without one."""
    if not line.get("evaluation"):
        return -1
    ends = (offset + length for name, offset, length in pieces if name == EVALUATION)
    return max(ends, default=0)


def _known_blocked(line: StepLine) -> Sequence[Interval]:
    """Offsets and lengths of blocked times; none where they are unknown."""
    return () if line["blocked"] is None else line["blocked"]


def _int64s() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class RecordedWindows:
    """Numbers packed one after the other, eight bytes each: ``table`` and ``wait_table``.

    ``phases`` and ``kinds`` hold the names behind the columns ``longest_phase`` and ``kind``.
    """

    numbers: "array[int]" = field(default_factory=_int64s)
    waits: "array[int]" = field(default_factory=_int64s)
    losses: "array[float]" = field(default_factory=lambda: array("d"))
    phases: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.losses)

    def table(self) -> dict[str, Int64s]:
        """One column per name in ``COLUMNS``, one entry per window."""
        rows = np.asarray(self.numbers, dtype=np.int64).reshape(-1, len(COLUMNS))
        return dict(zip(COLUMNS, rows.T, strict=True))

    def wait_table(self) -> Int64s:
        """One row per kind of wait in a window, with ``WAIT_COLUMNS``."""
        return np.asarray(self.waits, dtype=np.int64).reshape(-1, len(WAIT_COLUMNS))

    def add(self, line: WindowLine) -> None:
        """Take a line.

        Raises:
            KeyError, TypeError, ValueError: It is damaged.
        """
        loss = line.get("loss")
        loss = float("nan") if loss is None else float(loss)
        numbers, waits = self._numbers(line), self._waits(line)
        step, last, num_steps = numbers[:3]
        start_ns, end_ns, samples = numbers[4], numbers[5], numbers[7]
        if not 0 < num_steps <= last - step + 1 or end_ns <= start_ns or samples <= 0:
            raise ValueError("a window takes steps, time and samples")
        if len(self) and step <= self.numbers[1 - len(COLUMNS)]:
            raise ValueError("steps are numbered upwards")
        self.numbers.extend(numbers)
        self.waits.extend(number for wait in waits for number in wait)
        self.losses.append(loss)

    def _numbers(self, line: WindowLine) -> list[int]:
        parts: Mapping[str, tuple[int, int, int, int]] = line["parts"]
        spreads = [line["lengths"], *(parts.get(part, (0,) * 4) for part in SPREAD_PARTS)]
        if any(len(spread) != 4 for spread in spreads):
            raise ValueError("a spread has four numbers")
        longest, length, blocked, phase, phase_ns = line["longest"]
        return [
            *(whole(line[key]) for key in ("step", "last_step", "num_steps")),
            int(bool(line["warmup"])),
            *(whole(line[key]) for key in ("start_ns", "end_ns", "wall_ns", "samples")),
            whole(line["after_ns"]),
            int(line["waits"] is not None),
            whole(line.get("evaluation_ns", UNKNOWN)),
            whole(line.get("evaluation_blocked_ns", UNKNOWN)),
            *(whole(number) for spread in spreads for number in spread),
            *(whole(longest), whole(length), whole(blocked)),
            self.phases.setdefault(str(phase), len(self.phases)),
            whole(phase_ns),
        ]

    def _waits(self, line: WindowLine) -> list[tuple[int, ...]]:
        return [
            (
                len(self),
                self.kinds.setdefault(str(kind), len(self.kinds)),
                *map(whole, (number, own_ns, blocked_ns, num_ranks)),
            )
            for kind, number, own_ns, blocked_ns, num_ranks in line["waits"] or ()
        ]
