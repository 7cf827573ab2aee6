"""Which rank got ready when, as far as a timeline says it.

Horovod writes a tick when its coordinator takes up a rank's request, in order of ranks within one
cycle of its loop (controller.cc, ComputeResponseList). So ticks less than a cycle apart say nothing
of who was first, and a tensor out of the response cache has none at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.meaning.uses import (
    NEGOTIATION,
    NONE,
    Roles,
    Tensors,
    Uses,
    of_none,
    run_loop,
)
from hvdprof.ingest.timeline.syntax.fields import CYCLE_START
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, Marks, RawTimeline
from hvdprof.model.arrays import Int32s, Int64s

DEFAULT_CYCLE_US = 1000
OLD_DEFAULT_CYCLE_US = 5000
_ENOUGH_CYCLES = 3


@dataclass(frozen=True, slots=True)
class Cycle:
    """Length of a cycle of Horovod's loop, and where it is known from."""

    length_us: int
    origin: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """The ticks of each use; columns as long as ``Uses``, ``NONE`` where the file does not say.

    Attributes:
        num_ticks: Ticks of the negotiation.
        first_rank: The rank of the first tick; ``NONE`` with less than two.
        first_before_us: How much earlier the first tick came than the second; ``NONE`` with less
            than two.
        last_rank: The rank of the last tick; ``NONE`` with less than two.
        last_after_us: How much later the last tick came than the one before; ``NONE`` with less
            than two.
    """

    num_ticks: Int64s
    first_rank: Int64s
    first_before_us: Int64s
    last_rank: Int64s
    last_after_us: Int64s


@dataclass(frozen=True, slots=True)
class TickPlaces:
    """For each tick its tensor and row of ``Uses``; ``NONE`` outside every negotiation."""

    tensor: Int32s
    use: Int64s


def cycle_starts(marks: Marks, names: tuple[str, ...]) -> Int64s:
    """The times at which cycles are marked to begin, in µs of the file."""
    is_cycle = np.asarray([name == CYCLE_START for name in names], dtype=bool)[marks.name]
    return np.asarray(marks.ts_us[is_cycle])


def cycle_of(lengths: Mapping[int, int], *, has_epoch: bool) -> Cycle:
    """The cycle as marked in the file, else the default of the versions that write such files.

    Args:
        lengths: How often each distance in µs lies between one of ``cycle_starts`` and the next.
        has_epoch: The file has a header, so Horovod is 0.20.1 or later. The default went from
            5 ms to 1 ms with 0.21.0, which the file does not distinguish from 0.20.1.
    """
    number = sum(lengths.values())
    if number >= _ENOUGH_CYCLES:
        values = np.asarray(sorted(lengths), dtype=np.int64)
        last = np.cumsum([lengths[value] for value in values.tolist()])
        middle = np.searchsorted(last, [(last[-1] - 1) // 2, last[-1] // 2], side="right")
        return Cycle(max(int(values[middle].mean()), 1), f"median of {number} marked cycles")
    if has_epoch:
        return Cycle(DEFAULT_CYCLE_US, "default since Horovod 0.21, not in the file")
    return Cycle(OLD_DEFAULT_CYCLE_US, "default before Horovod 0.21, not in the file")


def places_of(
    raw: RawTimeline, tensors: Tensors, roles: Roles, uses: Uses
) -> tuple[TickPlaces, Readiness]:
    """The use in whose negotiation each tick lies, and who was ready first and last in each use."""
    slices, ticks = raw.slices, raw.ticks
    tensor = tensors.of_pid[ticks.pid] if len(ticks) else np.empty(0, np.int32)
    places = TickPlaces(tensor, of_none(len(ticks)))
    num_ticks = np.zeros(len(uses), np.int64)
    ready = Readiness(num_ticks, *(of_none(len(uses)) for _ in range(4)))
    negotiated = np.flatnonzero(roles.role == NEGOTIATION)
    run_loop(
        _place_ticks,
        (
            *(tensor, ticks.rank, ticks.ts_us, ticks.order),
            *(roles.tensor[negotiated], roles.use[negotiated]),
            *(slices.begin_order[negotiated], slices.end_order[negotiated]),
        ),
        (
            *(places.use, ready.num_ticks, ready.first_rank, ready.first_before_us),
            *(ready.last_rank, ready.last_after_us),
            *(of_none(len(tensors.names)), np.zeros(len(uses), np.int64)),
        ),
    )
    return places, ready


def _place_ticks(inputs: Any, outputs: Any) -> None:
    """Ticks and negotiations in file order; the first tick of a use may turn out to be alone.

    ``latest`` is the last negotiation by tensor, ``last_us`` the time of the last tick by use.
    """
    tick_tensor, rank, ts_us, order, tensor, use_of, begin, end = inputs
    use, num_ticks, first_rank, first_before_us, last_rank, last_after_us = outputs[:6]
    latest, last_us = outputs[6:]
    row = 0
    for tick in range(len(rank)):
        while row < len(begin) and begin[row] < order[tick]:
            latest[tensor[row]] = row
            row += 1
        around = latest[tick_tensor[tick]]
        if around < 0 or (end[around] != OPEN and end[around] < order[tick]):
            continue
        number = use_of[around]
        use[tick] = number
        num_ticks[number] += 1
        if num_ticks[number] == 1:
            first_rank[number] = rank[tick]
        else:
            last_rank[number] = rank[tick]
            last_after_us[number] = ts_us[tick] - last_us[number]
            if num_ticks[number] == 2:
                first_before_us[number] = last_after_us[number]
        last_us[number] = ts_us[tick]
    for number in range(len(num_ticks)):
        if num_ticks[number] == 1:
            first_rank[number] = NONE


def distinct_ranks(rank: Int64s, apart_us: Int64s, cycle: Cycle) -> Int64s:
    """Ranks first or last, ``NONE`` where the next one is closer than a cycle: that is a tie."""
    return np.where(apart_us >= cycle.length_us, rank, NONE)
