"""In which phases of its rank the blocked time of a pass lies.

Horovod's optimizer waits in its step, DDP at the end of backward, FSDP2 in forward and backward.
"""

import numpy as np

from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.arrays import Float64s


def blocked_shares(
    lane: Ints, category: Ints, start: Ints, end: Ints, *, blocked: int, num_categories: int
) -> Float64s:
    """[categories] The share of blocked time inside each phase; 0 in all where there is none.

    Args:
        lane: Lane of each interval of the ranks.
        category: Category of each; phases of a rank do not overlap.
        start: Start of each, ns.
        end: End of each, ns.
        blocked: The category of blocked time.
        num_categories: Number of categories.
    """
    shares = np.zeros(num_categories)
    inner, outer = np.flatnonzero(category == blocked), np.flatnonzero(category != blocked)
    if not len(inner) or not len(outer):
        return shares
    outer = outer[np.lexsort((start[outer], lane[outer]))]
    # One axis for all lanes: each begins where the one before it has ended.
    width = int(end.max() - start.min()) + 1
    begin = start - start.min() + lane * width
    place = np.searchsorted(begin[outer], begin[inner], side="right") - 1
    around = outer[place.clip(min=0)]
    inside = np.minimum(end[inner], end[around]) - start[inner]
    is_inside = (place >= 0) & (lane[around] == lane[inner]) & (inside > 0)
    np.add.at(shares, category[around[is_inside]], inside[is_inside])
    total = float((end[inner] - start[inner]).sum())
    return shares / total if total > 0 else shares
