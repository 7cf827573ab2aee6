"""Negotiations that are pending at the end of a timeline, and which ranks have submitted.

A rank that hangs, or that never reaches the collective, leaves this trace.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.uses import NONE
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN


@dataclass(frozen=True, slots=True)
class PendingNegotiation:
    """A tensor that some rank has not submitted when the file ends.

    Attributes:
        tensor: Its name.
        collective: What is negotiated.
        start_us: Begin of the negotiation in µs of the file.
        submitted: Ranks with a tick; none where the response cache hides them, and for tensors of
            a process set.
        missing: Ranks that the file names elsewhere, without a tick here; none where no rank has
            one.
    """

    tensor: str
    collective: str
    start_us: int
    submitted: tuple[int, ...]
    missing: tuple[int, ...] = ()


def pending_of(known: Semantics) -> list[PendingNegotiation]:
    """The negotiations that are pending where a part of a file ends, without missing ranks."""
    uses, slices, ticks = known.uses, known.raw.slices, known.raw.ticks
    is_last_use = np.append(uses.tensor[1:] != uses.tensor[:-1], True)[: len(uses)]
    waits = is_last_use & (uses.negotiation != NONE) & (uses.operation == NONE)
    use = np.flatnonzero(waits)
    use = use[slices.end_order[uses.negotiation[use]] == OPEN]
    ranks = {number: ticks.rank[known.places.use == number].tolist() for number in use.tolist()}
    return [
        PendingNegotiation(
            tensor=known.tensors.names[uses.tensor[number]],
            collective=known.collectives[slices.name[uses.negotiation[number]]],
            start_us=int(slices.start_us[uses.negotiation[number]]),
            submitted=tuple(sorted(set(found))),
        )
        for number, found in ranks.items()
    ]


def with_missing_ranks(
    pending: Sequence[PendingNegotiation],
    named: Collection[int],
    fewest_ticks: Mapping[str, int],
) -> tuple[PendingNegotiation, ...]:
    """The negotiations with the ranks that have not submitted.

    Ranks of a process set count from 0 within the set, which the file does not name. So a tensor
    that fewer ranks negotiated earlier has no ranks here.

    Args:
        pending: What is pending at the end of the file.
        named: All ranks that the file names.
        fewest_ticks: By tensor, the fewest ranks in an earlier use.
    """
    size = max(named, default=-1) + 1
    found = []
    for negotiation in pending:
        is_of_all = fewest_ticks.get(negotiation.tensor, size) == size
        submitted = negotiation.submitted if is_of_all else ()
        missing = tuple(rank for rank in range(size) if submitted and rank not in submitted)
        found.append(replace(negotiation, submitted=submitted, missing=missing))
    return tuple(found)
