"""Negotiations that are pending at the end of a timeline, and which ranks have submitted.

A rank that hangs, or that never reaches the collective, leaves this trace.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
        submitted: Ranks with a tick; none where the response cache hides them.
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

    Args:
        pending: What is pending at the end of the file.
        named: All ranks that the file names.
        fewest_ticks: By tensor, the fewest ranks in an earlier use. Fewer than all is a process
            set, whose ranks count from 0.
    """
    size = max(named, default=-1) + 1
    return tuple(
        PendingNegotiation(
            one.tensor,
            one.collective,
            one.start_us,
            one.submitted,
            tuple(
                rank
                for rank in range(min(size, fewest_ticks.get(one.tensor, size)))
                if one.submitted and rank not in one.submitted
            ),
        )
        for one in pending
    )
