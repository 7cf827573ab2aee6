"""Facts on an event, a bin or a pass of a timeline, as texts.

Tested in ``tests/figures/timeline/test_timeline_lanes.py``.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, INSIDE, Lanes
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import Run

_MOST_MATES = 200


@dataclass(frozen=True, slots=True)
class EventFacts:
    """An event: ``facts`` are label and text; ``mates`` the tensors of the same execution.

    ``start_ns`` counts from the start of the pass; ``lane`` is its number in ``Lanes.names``.
    ``num_mates`` counts all tensors of the execution, also those not in ``mates``.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    mates: tuple[tuple[str, str], ...]
    num_mates: int
    lane: int
    start_ns: int
    dur_ns: int


def timeline_passes(run: Run) -> dict[str, str]:
    """The passes with events on a time axis, and the label of each.

    The first is the default: the trace pass with the most ranks, because it also holds Horovod's
    events.
    """
    ids = [str(one) for one in pd.unique(run.events["pass_id"].astype("object"))]
    known = {
        str(row["pass_id"]): row
        for row in run.segments.drop_duplicates("pass_id").to_dict("records")
    }
    ranked = []
    for pass_id in ids:
        if pass_id in known:
            row = known[pass_id]
            size, mode = int(row["size"]), str(row["mode"])
            ranks = "1 rank" if size == 1 else f"{units.count(size)} ranks"
            ranked.append(((mode == "trace", size), pass_id, f"{pass_id} ({mode}, {ranks})"))
        else:
            ranked.append(((False, 0), pass_id, pass_id.rpartition("/")[2]))
    ranked.sort(key=lambda one: one[0], reverse=True)
    return {pass_id: label for _, pass_id, label in ranked}


def event_facts(lanes: Lanes, row: int) -> EventFacts | None:
    """The facts of an event and its fused batch-mates; ``None`` where the pass has no such row.

    Args:
        lanes: The lanes of its pass.
        row: Its row in ``run.events``.
    """
    at = lanes.spans.where(row)
    if at is None:
        return None
    events = lanes.run.events
    event = events.iloc[row]
    start_ns = int(event["start_ns"]) - lanes.origin_ns
    dur_ns = int(event["dur_ns"])
    size = event["size_bytes"]
    step = int(event["step"])
    mates = _mates(events, event)
    facts = [
        ("lane", lanes.names[at]),
        ("kind", str(event["phase"])),
        ("tensor", str(event["tensor"])),
        ("collective", str(event["collective"])),
        ("step", units.count(step) if step >= 0 else "outside steps"),
        ("start", units.milliseconds(start_ns)),
        ("duration", units.milliseconds(dur_ns) if dur_ns >= 0 else "end not in the file"),
        ("size", "" if pd.isna(size) else units.byte_size(float(size))),
        ("clock error", units.milliseconds(float(event["clock_error_ns"]))),
    ]
    return EventFacts(
        title=str(event["activity"]),
        facts=tuple((label, text) for label, text in facts if text),
        mates=tuple(_mate(mate) for mate in mates.head(_MOST_MATES).to_dict("records")),
        num_mates=len(mates),
        lane=at,
        start_ns=start_ns,
        dur_ns=max(dur_ns, 0),
    )


def bin_facts(lanes: Lanes, lane: int, at_ns: int, width_ns: int) -> tuple[tuple[str, str], ...]:
    """Share of each category in a lane around a time, and the number of events.

    Args:
        lanes: The lanes of a pass.
        lane: Number of the lane.
        at_ns: The middle, ns since the start of the pass.
        width_ns: Length of the bin.
    """
    first = lanes.origin_ns + at_ns - width_ns // 2
    last = first + max(width_ns, 1)
    one = np.array([lane])
    busy = lanes.spans.bins(first, last, one, most=1).busy[0, :, 0]
    own = busy.copy()
    for inner, outer in INSIDE.items():
        own[CATEGORIES.index(outer)] -= busy[CATEGORIES.index(inner)]
    shares = [
        (category, units.percent(float(own[number])))
        for number, category in enumerate(CATEGORIES)
        if own[number] > 0
    ]
    number = lanes.spans.count(first, last, one)
    return (("lane", lanes.names[lane]), ("events", units.count(number)), *shares)


def _mates(events: pd.DataFrame, event: pd.Series) -> pd.DataFrame:
    fusion = int(event["fusion_id"])
    if fusion < 0:
        return events.iloc[:0]
    same = events[(events["fusion_id"] == fusion).to_numpy()]
    for column, value in (
        ("pass_id", event["pass_id"]),
        ("segment", event["segment"]),
        ("phase", "operation"),
    ):
        same = same[(same[column] == value).to_numpy()]
    return same


def _mate(row: FrameRow) -> tuple[str, str]:
    size = row["size_bytes"]
    return str(row["tensor"]), units.MISSING if pd.isna(size) else units.byte_size(float(size))
