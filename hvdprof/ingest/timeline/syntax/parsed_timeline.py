"""What one timeline file says, as columns: its finished syntax, before any meaning.

Two paths fill it with the same result: ``plain_path`` in plain Python, and ``fast_path`` compiled.
The layout of the file is that of Horovod's ``timeline.cc`` (``TimelineWriter``), 0.12 to 0.28.1.

Records that carry a time (B, E, X, i) are numbered in file order from 0; metadata records are not.
A damaged place takes a number too, so that two records with consecutive numbers stood side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.model.arrays import Int32s, Int64s, Uint8s

OPEN = -1
"""``Slices.end_order`` and ``dur_us`` of a slice whose end is not in the file."""

ORPHAN = -1
"""``Slices.begin_order`` and ``name`` of an end whose begin is not in the file."""

DEEPEST = 255
"""A begin on a pid with so many open ones starts anew: those stay open."""

LATEST_US = 4_000_000_000_000_000
"""127 years in µs: twice as much still fits 64 bits in ns."""

_EARLIEST_NS = 10**18

LISTED_PLACES = 100
"""So many damaged places are listed one by one; all are counted."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Begins with their ends, paired by a stack per pid in file order; one row each.

    Rows stand in the order of their begin; an orphan (an end without a begin) where its end stood.
    A begin whose name starts with ``NEGOTIATE_`` clears the stack of its pid first: Horovod never
    negotiates a tensor in use, so the ends of what was open are lost, and those rows stay open.

    Attributes:
        pid: Code of the pid, index into ``RawTimeline.pids``.
        name: Index into ``RawTimeline.names``; ``ORPHAN`` without a begin.
        start_us: Time of the begin in µs of the file (fractions floored); of the end for orphans.
        dur_us: Length in µs, ``OPEN`` where ``end_order`` is; 0 for orphans.
        depth: Number of slices of the pid that were open at the begin, from 0.
        begin_order: Number of the begin in the file, ``ORPHAN`` where missing.
        end_order: Number of the end in the file, ``OPEN`` where missing. This, and not ``dur_us``,
            shows open rows: times that run backwards make lengths negative.
        args: Args of the end, index into ``RawTimeline.args``; -1 where it has none.
    """

    pid: Int32s
    name: Int32s
    start_us: Int64s
    dur_us: Int64s
    depth: Uint8s
    begin_order: Int64s
    end_order: Int64s
    args: Int32s

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.start_us)


def stood_at(slices: Slices) -> Int64s:
    """Number of the record at which each row stands, rising from row to row."""
    return np.where(slices.begin_order == ORPHAN, slices.end_order, slices.begin_order)


@dataclass(frozen=True, slots=True)
class Ticks:
    """X records: a rank got ready; ``pid`` is the code of the pid, ``rank`` that in the name."""

    pid: Int32s
    rank: Int32s
    ts_us: Int64s
    order: Int64s

    def __len__(self) -> int:
        """The number of ticks."""
        return len(self.ts_us)


@dataclass(frozen=True, slots=True)
class Marks:
    """``i`` records: a cycle began (``CYCLE_START``); ``name`` is an index into ``names``."""

    name: Int32s
    ts_us: Int64s
    order: Int64s

    def __len__(self) -> int:
        """The number of marks."""
        return len(self.ts_us)


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that could not be used: where it starts, how many bytes, and what was wrong."""

    offset: int
    length: int
    what: str


@dataclass(frozen=True, slots=True)
class DamageReport:
    """All that was passed over; ``places`` are the first ones, the counts are those of all."""

    num_places: int = 0
    num_bytes: int = 0
    places: tuple[Damage, ...] = ()


class DamageLog:
    """Collects the damaged places of a file."""

    def __init__(self) -> None:
        self.start = -1
        self.num_places = 0
        self.num_bytes = 0
        self.places: list[Damage] = []

    @property
    def is_open(self) -> bool:
        """Whether a damaged place has begun that has not ended."""
        return self.start >= 0

    def open(self, start: int) -> None:
        """A damaged place begins."""
        self.start = start

    def close(self, end: int, what: str) -> None:
        """It ends."""
        self.add(self.start, end - self.start, what)
        self.start = -1

    def add(self, start: int, length: int, what: str) -> None:
        """Add a damaged place."""
        self.num_places += 1
        self.num_bytes += length
        if len(self.places) < LISTED_PLACES:
            self.places.append(Damage(start, length, what))

    def report(self, broken: str, size: int) -> DamageReport:
        """All places; ``broken`` says why the text ended before the file did."""
        if broken:
            self.add(size, 0, broken)
        return DamageReport(self.num_places, self.num_bytes, tuple(self.places))


@dataclass(frozen=True, slots=True)
class Layout:
    """How the file is written.

    Attributes:
        in_object: The array stands in an object under the key ``traceEvents``.
        encoding: ``utf-8``, or ``utf-16``.
        compression: Empty, ``gzip`` or ``zstd``.
    """

    in_object: bool = False
    encoding: str = "utf-8"
    compression: str = ""


@dataclass(frozen=True, slots=True)
class RawTimeline:
    """The records of one file.

    Attributes:
        slices: Begins with their ends.
        ticks: Ranks that got ready.
        marks: Cycle marks.
        pids: The number of the pid by code. A pid that is named anew in the file (two recordings
            in one file) has one code for each name.
        tensors: Name of the tensor by code of the pid; empty where the file does not name it.
            Bytes that are not UTF-8 stand as their hexadecimal escape.
        names: Names of slices and marks.
        args: Args of ends as JSON text, each different one once.
        epochs: (number of the next timed record, wall clock in µs at time 0 of the file), one for
            each header; none where the file has no header (Horovod before 0.20.1).
        num_records: Number of usable records by ``ph``.
        num_timed: The next free number of a timed record.
        damage: What was passed over.
        layout: How the file is written.
        size_bytes: Size of the text, after decompression.
        foreign: Empty for Horovod's files (and those without any record), else what it is.
    """

    slices: Slices
    ticks: Ticks
    marks: Marks
    pids: tuple[int, ...]
    tensors: tuple[str, ...]
    names: tuple[str, ...]
    args: tuple[str, ...]
    epochs: tuple[tuple[int, int], ...]
    num_records: Mapping[str, int]
    num_timed: int
    damage: DamageReport
    layout: Layout
    size_bytes: int
    foreign: str = ""

    @property
    def epoch_us(self) -> int | None:
        """Wall clock in µs at time 0 of the file, from its first header."""
        return self.epochs[0][1] if self.epochs else None

    @property
    def range_us(self) -> tuple[int, int] | None:
        """Earliest and latest time in the file in µs; ``None`` without timed records."""
        slices = self.slices
        ended = slices.end_order != OPEN
        times = (
            slices.start_us,
            slices.start_us[ended] + slices.dur_us[ended],
            self.ticks.ts_us,
            self.marks.ts_us,
        )
        filled = [column for column in times if len(column)]
        if not filled:
            return None
        return min(int(c.min()) for c in filled), max(int(c.max()) for c in filled)


def with_clamped_timestamps(raw: RawTimeline) -> tuple[RawTimeline, int]:
    """The file with all times within ``LATEST_US``, and how many of its records were moved there.

    Headers whose wall clock lies outside are left out, and not counted.
    """
    slices, ticks, marks = raw.slices, raw.ticks, raw.marks
    ended = slices.end_order != OPEN
    end_us = np.where(ended, slices.start_us + slices.dur_us, slices.start_us)
    epochs = epochs_in_range(raw.epochs)
    num_moved = sum(map(_num_outside, (slices.start_us, ticks.ts_us, marks.ts_us)))
    num_moved += _num_outside(end_us[ended])
    if not num_moved:
        return replace(raw, epochs=epochs), 0
    start_us = _within(slices.start_us)
    dur_us = np.where(ended, _within(end_us) - start_us, slices.dur_us)
    moved = replace(
        raw,
        slices=replace(slices, start_us=start_us, dur_us=dur_us),
        ticks=replace(ticks, ts_us=_within(ticks.ts_us)),
        marks=replace(marks, ts_us=_within(marks.ts_us)),
        epochs=epochs,
    )
    return moved, num_moved


def epochs_in_range(epochs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The headers (``RawTimeline.epochs``) whose wall clock is one that a clock shows, in µs."""
    in_us = ((order, epoch // 1000 if is_in_ns(epoch) else epoch) for order, epoch in epochs)
    return tuple(header for header in in_us if 0 < header[1] < LATEST_US)


def is_in_ns(epoch: int) -> bool:
    """Whether a wall clock is in ns, though Horovod writes µs: it is after 2001."""
    return _EARLIEST_NS <= epoch < LATEST_US * 1000


def _num_outside(times_us: Int64s) -> int:
    return int(((times_us > LATEST_US) | (times_us < -LATEST_US)).sum())


def _within(times_us: Int64s) -> Int64s:
    return np.clip(times_us, -LATEST_US, LATEST_US)
