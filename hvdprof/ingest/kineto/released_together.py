"""Clocks of ranks that no trace relates, from the ends of their collectives.

All ranks leave an allreduce at about one moment: after the last of them has arrived, and within its
transfer. The transfer is at most the shortest call of any rank, that of the last one. This is no
proof, as a rank may be slower to leave than all others in most steps.

Tested in ``tests/ingest/kineto/test_released_together.py``.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.model.arrays import Int64s
from hvdprof.model.tables.rank_collective_tables import NO_MATCH

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
            if number in ends[rank] and call.length_ns is not None:
                shortest[number] = min(shortest.get(number, call.length_ns), call.length_ns)
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
