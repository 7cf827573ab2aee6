"""Arrows from the last rank that is ready to the release of the others, one per execution.

Tested in ``tests/figures/timeline/test_view_data.py``.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.counters import Executions
from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.timeline_rows import Row
from hvdprof.figures.timeline.viewport import Ints

_MOST_ARROWS = 30
_MOST_RANKS = 64


def release_arrows(
    lanes: Lanes, rows: Sequence[Row], executions: Executions, seen: tuple[int, int]
) -> list[dict[str, object]]:
    """One arrow per execution in view, where they are few and ranks recorded ready times.

    ``lane`` and ``from`` are the last rank's lane and its last ready time, ``to`` the end of the
    execution, which releases the ranks of ``others``.

    Args:
        lanes: The lanes of a pass.
        rows: The rows that are shown.
        executions: The executions of the pass.
        seen: The window on the clock of the tables, ns.
    """
    shown = {row.lane for row in rows if 0 <= row.lane < lanes.num_ranks}
    inside = executions.between(*seen)
    if not 0 < len(inside) <= _MOST_ARROWS or len(shown) < 2:
        return []
    arrivals = last_arrivals(lanes, executions, inside)
    others = sorted(shown)[:_MOST_RANKS]
    return [
        {
            "lane": lane,
            "from": ready_ns - lanes.origin_ns,
            "to": int(executions.end_ns[place]) - lanes.origin_ns,
            "others": [other for other in others if other != lane],
        }
        for place, (lane, ready_ns) in arrivals.items()
        if lane in shown
    ]


def last_arrivals(lanes: Lanes, executions: Executions, places: Ints) -> dict[int, tuple[int, int]]:
    """By execution: the lane of the rank whose last gradient was ready last, and that time.

    Executions without ready times of at least two ranks are omitted.
    """
    operations = _operations(lanes, executions, places)
    if operations.empty:
        return {}
    ready = lanes.run.arrivals
    keys = ["segment", "step", "tensor"]
    wanted = (ready["pass_id"] == lanes.pass_id).to_numpy(bool)
    wanted = wanted & ready["step"].isin(operations["step"].unique()).to_numpy()
    rows = ready.loc[wanted, [*keys, "rank", "ready_ns"]].astype(
        {"segment": object, "tensor": object}
    )
    joined = operations.merge(rows, on=keys)
    found: dict[int, tuple[int, int]] = {}
    for place, group in joined.groupby("place"):
        last = group.iloc[int(group["ready_ns"].to_numpy().argmax())]
        lane = int(np.searchsorted(lanes.ranks, int(last["rank"])))
        if len(set(group["rank"])) > 1 and lane < lanes.num_ranks:
            found[int(str(place))] = lane, int(last["ready_ns"])
    return found


def _operations(lanes: Lanes, executions: Executions, places: Ints) -> pd.DataFrame:
    """Segment, step and tensor of all that these executions reduce, and their places."""
    events = lanes.run.events
    first, last = executions.start_ns[places].min(), executions.end_ns[places].max()
    start = events["start_ns"].to_numpy(np.int64)
    near = np.flatnonzero((start >= first) & (start <= last))
    near = near[(events["phase"].iloc[near] == "operation").to_numpy(bool)]
    rows = events.iloc[near][["pass_id", "segment", "step", "tensor", "fusion_id"]]
    rows = rows[(rows["pass_id"] == lanes.pass_id).to_numpy(bool)]
    named = pd.DataFrame(
        {
            "place": places,
            "segment": [executions.segments[executions.segment[place]] for place in places],
            "fusion_id": executions.fusion_id[places],
        }
    )
    plain = rows.astype({"segment": object, "tensor": object}).drop(columns="pass_id")
    return named.merge(plain, on=["segment", "fusion_id"])
