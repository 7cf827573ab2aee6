"""Recordings of one process on one axis; recordings of different ones kept apart.

All files that one process writes, and all parts of one file, give the time of ``hvd.init()`` in
their header (timeline.cc, ``TimelineController::Initialize``): the same header is the same axis.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline, stood_at
from hvdprof.model.arrays import Int64s


def on_first_axis(raw: RawTimeline) -> RawTimeline:
    """The file with all times on the axis of its first header.

    A file holds several headers where a later process wrote behind an earlier one.
    """
    if len({epoch for _, epoch in raw.epochs}) <= 1:
        return raw
    slices = raw.slices
    ticks, marks = raw.ticks, raw.marks
    return replace(
        raw,
        slices=replace(slices, start_us=slices.start_us + _shifts(raw, stood_at(slices))),
        ticks=replace(ticks, ts_us=ticks.ts_us + _shifts(raw, ticks.order)),
        marks=replace(marks, ts_us=marks.ts_us + _shifts(raw, marks.order)),
    )


def sessions_of(epochs: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """Which of several files share an axis, as groups of their positions.

    Args:
        epochs: ``TimelineFile.epoch_us`` of each file, or ``TIMELINES.epoch_ns``. A file
            without one (Horovod before 0.20.1) is a group of its own: nothing in it says which
            process wrote it.
    """
    groups: dict[object, list[int]] = {}
    for position, epoch in enumerate(epochs):
        groups.setdefault(("alone", position) if epoch is None else epoch, []).append(position)
    return tuple(tuple(group) for group in groups.values())


def _shifts(raw: RawTimeline, order: Int64s) -> Int64s:
    from_order = np.asarray([first for first, _ in raw.epochs], dtype=np.int64)
    epoch = np.asarray([epoch for _, epoch in raw.epochs], dtype=np.int64)
    header = np.maximum(np.searchsorted(from_order, order, side="right") - 1, 0)
    return np.asarray(epoch[header] - epoch[0])
