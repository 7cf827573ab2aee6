"""When each rank was ready for the tensor of an event, and which rank came last."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.viewport import Ints

_MOST_RANKS = 32


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Ranks by ready time, the last first: rank, and how long before the last one it was ready, ns.

    At most 32 of ``num_ranks``. ``first_ns`` and ``last_ns`` count from the start of the pass.
    ``source`` says what they were read from.
    """

    ranks: tuple[tuple[int, int], ...]
    num_ranks: int
    first_ns: int
    last_ns: int
    source: str


def event_arrivals(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    """The arrivals for the tensor of an event in its step; ``None`` where none are recorded.

    From recorder files where there are some, else from the marks of Horovod's timeline, which notes
    on rank 0 when the request of each rank came in.

    Args:
        lanes: The lanes of its pass.
        event: A row of ``run.events``.
    """
    if not event["tensor"]:
        return None
    return _recorded(lanes, event) or _marked(lanes, event)


def _recorded(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    table = lanes.run.arrivals
    own = (table["step"] == event["step"]).to_numpy(bool)
    for column in ("tensor", "segment", "pass_id"):
        own = own & (table[column] == event[column]).to_numpy(bool)
    rows = table[own]
    return _of(
        lanes,
        rows["rank"].to_numpy(np.int64),
        rows["ready_ns"].to_numpy(np.int64),
        "recorder files",
    )


def _marked(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    events = lanes.run.events
    own = (events["occurrence"] == event["occurrence"]).to_numpy(bool)
    for column in ("tensor", "pass_id", "segment"):
        own = own & (events[column] == event[column]).to_numpy(bool)
    own = own & (events["phase"] == "mark").to_numpy(bool)
    rows = events[own]
    rows = rows[rows["activity"].astype(str).str.fullmatch(r"\d{1,6}").to_numpy(bool)]
    return _of(
        lanes,
        rows["activity"].astype(str).astype("int64").to_numpy(),
        rows["start_ns"].to_numpy(np.int64),
        "Horovod's timeline, by the clock of rank 0",
    )


def _of(lanes: Lanes, ranks: Ints, ready_ns: Ints, source: str) -> Arrivals | None:
    if not len(ranks):
        return None
    order = np.argsort(ready_ns, kind="stable")[::-1]
    last = int(ready_ns[order[0]])
    return Arrivals(
        ranks=tuple(
            (int(ranks[place]), last - int(ready_ns[place])) for place in order[:_MOST_RANKS]
        ),
        num_ranks=len(ranks),
        first_ns=int(ready_ns.min()) - lanes.origin_ns,
        last_ns=last - lanes.origin_ns,
        source=source,
    )
