"""Where a timeline can be cut in two so that the meaning of neither part hangs on the other.

Horovod comes to rest between steps: nothing is open, and all that was agreed on has been executed.
Before such a place every slice has its end, every negotiation its operation, or the proof that none
came. ``uses.roles_and_uses``, ``fusion.batches_of`` and ``ticks.places_of`` then say of the rows
before it what they say with the whole file at hand, but for the number of earlier uses.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.timeline.meaning.activities import NEGOTIATE, NEVER_BEGUN
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, Int32s, Int64s, Slices, stood_at

Flags = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max


def quiet_record(
    slices: Slices, names: tuple[str, ...], collectives: tuple[str, ...], tensor: Int32s
) -> int:
    """The last of some records before which all is at rest, 0 where none is.

    Args:
        slices: Rows of a file up to some record, all from a place on at which it was at rest.
        names: Names of slices.
        collectives: ``semantics.collectives_of`` these names.
        tensor: Code of the tensor of each row.
    """
    if not len(slices):
        return 0
    order = np.argsort(tensor, kind="stable")
    name = slices.name[order]
    negotiates = _flags(name.startswith(NEGOTIATE) for name in names)[name]
    known = _flags(bool(collective) for collective in collectives)[name]
    waits = _flags(
        name.startswith(NEGOTIATE) and name.removeprefix(NEGOTIATE) not in NEVER_BEGUN
        for name in names
    )[name]
    place = stood_at(slices)
    last_of_tensor = np.append(tensor[order][1:] != tensor[order][:-1], True)
    base = negotiates | (known & (slices.depth[order] == 0))
    begin = place[order]
    next_base = _next(begin, base, last_of_tensor)
    # What never ends reaches to the use after the next negotiation, which begins anew.
    next_use = _next(np.where(negotiates, next_base, begin), negotiates, last_of_tensor)
    end = slices.end_order[order]
    settled = np.where(end == OPEN, next_use, np.where(waits, np.maximum(end, next_base), end))
    settled[_may_end(slices, negotiates, order)[order]] = _NEVER
    reach = np.empty_like(settled)
    reach[order] = settled
    at_rest = np.flatnonzero(np.maximum.accumulate(reach)[:-1] < place[1:])
    return int(place[at_rest[-1] + 1]) if len(at_rest) else 0


def _may_end(slices: Slices, negotiates: Flags, order: Int64s) -> Flags:
    """Open rows that no negotiation of their pid has cleared from its stack."""
    rows = np.sort(order[negotiates])
    last = np.full(int(slices.pid.max()) + 1, -1, dtype=np.int64)
    last[slices.pid[rows]] = rows
    is_after = np.arange(len(slices)) >= last[slices.pid]
    return np.asarray((slices.end_order == OPEN) & is_after)


def _flags(values: Iterable[bool]) -> Flags:
    # One more at the end, for the code ORPHAN (-1).
    return np.asarray([*values, False], dtype=bool)


def _next(values: Int64s, flags: Flags, last_of_group: Flags) -> Int64s:
    """For each row the value of the next flagged row of its group, ``_NEVER`` without any."""
    position = np.arange(len(values))
    ahead = np.minimum.accumulate(np.where(flags, position, len(values))[::-1])[::-1]
    following = np.append(ahead[1:], len(values))
    group_end = np.minimum.accumulate(np.where(last_of_group, position, len(values))[::-1])[::-1]
    found = following <= group_end
    return np.where(found, np.append(values, _NEVER)[np.where(found, following, -1)], _NEVER)
