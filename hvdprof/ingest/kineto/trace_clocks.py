"""Clocks that no trace states: of ranks by ends of collectives, of a GPU by its host.

All ranks leave an allreduce at about one moment: after the last of them has arrived, and within its
transfer. The transfer is at most the shortest call of any rank, that of the last one. This is no
proof, as a rank may be slower to leave than all others in most steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.model.arrays import Int64s
from hvdprof.model.tables.rank_collective_tables import NO_MATCH


@dataclass(frozen=True, slots=True)
class GpuClock:
    """Moments of the host to moments of its GPU; without kernels, the host's own time.

    ``launched`` are launches in ascending order, ``done`` the last end of the kernels up to each,
    ``begun`` the first start of the kernels from each on.
    """

    launched: Int64s
    done: Int64s
    begun: Int64s

    @classmethod
    def of(cls, launched: Int64s, starts: Int64s, ends: Int64s) -> "GpuClock":
        """From launch, start and end of each kernel that computes, in any order."""
        order = np.argsort(launched, kind="stable")
        return cls(
            launched[order],
            np.maximum.accumulate(ends[order]),
            np.minimum.accumulate(starts[order][::-1])[::-1],
        )

    def done_ns(self, host_ns: int) -> int:
        """When everything that was launched before a moment of the host was done.

        The moment itself where nothing had been launched.
        """
        place = int(np.searchsorted(self.launched, host_ns))
        if not len(self.launched) or not place:
            return host_ns
        return int(self.done[place - 1])

    def next_begin_ns(self, host_ns: int) -> int:
        """When the first kernel launched from a moment of the host on began.

        As ``done_ns`` where none was.
        """
        place = int(np.searchsorted(self.launched, host_ns))
        if place >= len(self.launched):
            return self.done_ns(host_ns)
        return int(self.begun[place])


LEAST_COLLECTIVES = 3
"""A single one may have been left late by chance."""

ALL_WAIT = ("ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BARRIER")
"""Collectives from which no rank returns before every rank of the group has called them."""


def clock_shifts(
    calls: Mapping[int, Sequence[CollectiveCall]], ids: Mapping[int, Int64s]
) -> dict[int, tuple[int, int]]:
    """What leads from the clock of each rank to that of the first one, ns, and its error.

    Both are medians over the collectives that the two ranks share; ranks with too few of them are
    missing.

    Args:
        calls: By rank its collectives.
        ids: By rank the number of the collective of each call.
    """
    ends = {rank: _ends(own, ids[rank]) for rank, own in calls.items()}
    shortest: dict[int, int] = {}
    for rank, own in calls.items():
        for number, call in zip(ids[rank].tolist(), own, strict=True):
            if number in ends[rank] and (length := call.length_ns) is not None:
                shortest[number] = min(shortest.get(number, length), length)
    first, *others = ends
    found = {}
    for rank in others:
        common = sorted(ends[first].keys() & ends[rank].keys())
        if len(common) < LEAST_COLLECTIVES:
            continue
        apart = np.array([ends[first][number] - ends[rank][number] for number in common])
        transfer = np.array([shortest[number] for number in common])
        found[rank] = int(np.median(apart)), max(int(np.median(transfer)), 1)
    return found


def _ends(calls: Sequence[CollectiveCall], ids: Int64s) -> dict[int, int]:
    """The end of each collective that all ranks leave together, by its number."""
    return {
        number: call.end_ns
        for number, call in zip(ids.tolist(), calls, strict=True)
        if number != NO_MATCH and call.collective in ALL_WAIT and call.end_ns is not None
    }
