"""Which rank got ready when, as far as a timeline says it.

Horovod writes a tick when its coordinator takes up a rank's request, in order of ranks within one
cycle of its loop (controller.cc, ComputeResponseList). So ticks less than a cycle apart say nothing
of who was first, and a tensor out of the response cache has none at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.timeline.meaning.uses import NONE, Roles, Tensors, Uses, by_tensor
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, Marks, RawTimeline, Ticks

Int64s = NDArray[np.int64]

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
    """The ticks of each use; columns as long as ``Uses``, ``NONE`` where the file does not tell.

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

    tensor: NDArray[np.int32]
    use: Int64s


def cycle_starts(marks: Marks, names: tuple[str, ...]) -> Int64s:
    """The times at which cycles are marked to begin, in µs of the file."""
    is_cycle = np.asarray([name == "CYCLE_START" for name in names], dtype=bool)[marks.name]
    return np.asarray(marks.ts_us[is_cycle])


def cycle_of(lengths: Mapping[int, int], *, has_epoch: bool) -> Cycle:
    """The cycle as marked in the file, else the default of the versions that write such files.

    Args:
        lengths: How often each distance in µs lies between one of ``cycle_starts`` and the next.
        has_epoch: The file has a header, so Horovod is 0.20.1 or later. The default went from
            5 ms to 1 ms with 0.21.0, which the file does not tell from 0.20.1.
    """
    number = sum(lengths.values())
    if number >= _ENOUGH_CYCLES:
        return Cycle(max(_median(lengths), 1), f"median of {number} marked cycles")
    if has_epoch:
        return Cycle(DEFAULT_CYCLE_US, "default since Horovod 0.21, not told by the file")
    return Cycle(OLD_DEFAULT_CYCLE_US, "default before Horovod 0.21, not told by the file")


def _median(lengths: Mapping[int, int]) -> int:
    values = np.asarray(sorted(lengths), dtype=np.int64)
    last = np.cumsum([lengths[value] for value in values.tolist()])
    middle = np.searchsorted(last, [(last[-1] - 1) // 2, last[-1] // 2], side="right")
    return int(values[middle].mean())


def places_of(raw: RawTimeline, tensors: Tensors, roles: Roles, uses: Uses) -> TickPlaces:
    """The use to which each tick belongs: that whose negotiation it lies in."""
    ticks = raw.ticks
    tensor = tensors.of_pid[ticks.pid] if len(ticks) else np.empty(0, np.int32)
    negotiated = np.flatnonzero(uses.negotiation != NONE)
    use = np.full(len(ticks), NONE, dtype=np.int64)
    if not len(negotiated) or not len(ticks):
        return TickPlaces(tensor, use)
    rows = uses.negotiation[negotiated]
    scale = raw.num_timed + 1
    begins = uses.tensor[negotiated].astype(np.int64) * scale + raw.slices.begin_order[rows]
    order = by_tensor(tensor)
    keys = tensor[order].astype(np.int64) * scale + ticks.order[order]
    found = np.searchsorted(begins, keys) - 1
    end = raw.slices.end_order[rows][found]
    inside = (
        (found >= 0)
        & (uses.tensor[negotiated][found] == tensor[order])
        & ((end == OPEN) | (end > ticks.order[order]))
    )
    use[order] = np.where(inside, negotiated[found], NONE)
    return TickPlaces(tensor, use)


def told_apart(rank: Int64s, apart_us: Int64s, cycle: Cycle) -> Int64s:
    """Ranks first or last, ``NONE`` where the next one is closer than a cycle: that is a tie."""
    return np.where(apart_us >= cycle.length_us, rank, NONE)


def readiness_of(ticks: Ticks, places: TickPlaces, num_uses: int) -> Readiness:
    """Who was ready first and last in each use, ties too; see ``told_apart``."""
    inside = np.flatnonzero(places.use != NONE)
    order = inside[np.argsort(places.use[inside], kind="stable")]
    use, rank, ts = places.use[order], ticks.rank[order].astype(np.int64), ticks.ts_us[order]
    num_ticks = np.bincount(use, minlength=num_uses).astype(np.int64)
    readiness = Readiness(num_ticks, *(np.full(num_uses, NONE, dtype=np.int64) for _ in range(4)))
    several = np.flatnonzero(num_ticks >= 2)
    stop = np.cumsum(num_ticks)[several]
    start = stop - num_ticks[several]
    readiness.first_rank[several] = rank[start]
    readiness.first_before_us[several] = ts[start + 1] - ts[start]
    readiness.last_rank[several] = rank[stop - 1]
    readiness.last_after_us[several] = ts[stop - 1] - ts[stop - 2]
    return readiness
