"""Times that no clock shows, out of damaged digits: kept from spoiling the arithmetic of all."""

from dataclasses import replace

import numpy as np

from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, RawTimeline
from hvdprof.model.arrays import Int64s

LATEST_US = 4_000_000_000_000_000
"""127 years in µs: twice as much still fits 64 bits in ns."""

_EARLIEST_NS = 10**18


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
