"""The windows of a light recording of one rank in one segment, as arrays."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.recording.line_format import WindowLine

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
