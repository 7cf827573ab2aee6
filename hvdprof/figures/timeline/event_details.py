"""Facts on an event, a bin or a pass of a timeline, as texts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.derived_spans import NAMES
from hvdprof.figures.timeline.event_companions import (
    Arrivals,
    RankEvent,
    event_arrivals,
    same_event,
    sampled_lines,
)
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, Lanes, own_times
from hvdprof.figures.timeline.turn_axis import length_text, place_text
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.run import Run

_MOST_MATES = 200


@dataclass(frozen=True, slots=True)
class EventFacts:
    """An event: ``facts`` are label and text.

    ``start_ns`` counts from the start of the pass; ``lane`` is its number in ``Lanes.names``, that
    of the execution where only the first tensor of it is drawn, -1 where it has no lane.
    ``execution`` are the tensors of the same execution with their sizes, at most 200 of
    ``num_tensors``. ``previous`` and ``next`` are the rows of the nearest events of the same name,
    rank and tensor, -1 where there is none. ``same`` and ``lines`` are those of
    ``event_companions``. ``values`` are the columns of its row as JSON has them.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    execution: tuple[tuple[str, str], ...]
    execution_facts: tuple[tuple[str, str], ...]
    num_tensors: int
    arrivals: Arrivals | None
    same: tuple[RankEvent, ...]
    lines: tuple[tuple[str, str], ...]
    lane: int
    start_ns: int
    dur_ns: int
    previous: int
    next: int
    values: dict[str, object]


def timeline_passes(run: Run) -> dict[str, str]:
    """The passes with events on a time axis, and the label of each.

    The first is the default: the trace pass with the most ranks, because it also holds Horovod's
    events.
    """
    # The codes of a category are looked at, not the text of each of ten million rows.
    codes, names = pd.factorize(run.events["pass_id"])
    ids = [str(names[int(code)]) for code in pd.unique(codes) if code >= 0]
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
    ranked.sort(key=lambda entry: entry[0], reverse=True)
    return {pass_id: label for _, pass_id, label in ranked}


def event_facts(lanes: Lanes, row: int) -> EventFacts | None:
    """The facts of an event; ``None`` where the pass has no such row."""
    events = lanes.run.events
    if not 0 <= row < len(events) or str(events["pass_id"].iloc[row]) != lanes.pass_id:
        return None
    event = events.iloc[row]
    start_ns = int(event["start_ns"]) - lanes.origin_ns
    dur_ns = int(event["dur_ns"])
    step = int(event["step"])
    lane = lanes.spans.where(row)
    fused = _execution(lanes, event)
    operations = fused[(events["phase"].iloc[fused] == "operation").to_numpy(bool)]
    if lane is None and len(fused):
        lane = next(
            (at for other in fused.tolist() if (at := lanes.spans.where(other)) is not None), None
        )
    before, after = _neighbours(lanes, row, event)
    facts = [
        ("lane", "" if lane is None else lanes.names[lane]),
        ("kind", str(event["phase"])),
        ("tensor", str(event["tensor"])),
        ("collective", str(event["collective"])),
        ("segment", str(event["segment"]) if len(lanes.steps.segments) > 1 else ""),
        ("step", units.count(step) if step >= 0 else "outside steps"),
        ("start", place_text(start_ns)),
        (
            "duration",
            lanes.axis.text(start_ns, start_ns + dur_ns) if dur_ns >= 0 else "end not in the file",
        ),
        ("size", _size(event["size_bytes"], missing="")),
        ("clock error", units.milliseconds(float(event["clock_error_ns"]))),
    ]
    named = events.iloc[operations[:_MOST_MATES]]
    return EventFacts(
        title=str(event["activity"]),
        facts=tuple((label, text) for label, text in facts if text),
        execution=tuple(
            (str(tensor), _size(size))
            for tensor, size in zip(named["tensor"], named["size_bytes"], strict=True)
        ),
        execution_facts=_execution_facts(lanes, fused, operations),
        num_tensors=len(operations),
        arrivals=event_arrivals(lanes, event),
        same=same_event(lanes, event),
        lines=sampled_lines(lanes, event),
        lane=-1 if lane is None else lane,
        start_ns=start_ns,
        dur_ns=max(dur_ns, 0),
        previous=before,
        next=after,
        values={str(name): _plain(value) for name, value in event.items()},
    )


def derived_facts(lanes: Lanes, lane: int, at_ns: int) -> dict[str, object]:
    """Title, facts and extent of the derived interval at a time of a lane; empty without one."""
    time_ns = lanes.origin_ns + at_ns
    spans = lanes.spans.within(time_ns, time_ns + 1, np.array([lane]))
    found = np.flatnonzero(spans.row < 0)
    if not len(found):
        return {}
    start, end = int(spans.start_ns[found[0]]), int(spans.end_ns[found[0]])
    title = NAMES[CATEGORIES[int(spans.category[found[0]])]]
    steps = lanes.steps
    inside = np.flatnonzero((steps.start_ns <= start) & (steps.end_ns >= end))
    facts = [
        ("lane", lanes.names[lane]),
        ("step", units.count(int(steps.number[inside[0]])) if len(inside) else "outside steps"),
        ("start", place_text(start - lanes.origin_ns)),
        ("duration", lanes.axis.text(start - lanes.origin_ns, end - lanes.origin_ns)),
    ]
    return {
        "title": title[0].upper() + title[1:],
        "facts": facts,
        "lane": lane,
        "start_ns": start - lanes.origin_ns,
        "dur_ns": end - start,
    }


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
    own = own_times(lanes.spans.bins(first, last, one, most=1).busy, lanes.blocked_in)[0, :, 0]
    shares = [
        (category, units.percent(float(own[number])))
        for number, category in enumerate(CATEGORIES)
        if own[number] > 0
    ]
    number = lanes.spans.count(first, last, one)
    return (("lane", lanes.names[lane]), ("events", units.count(number)), *shares)


def _execution(lanes: Lanes, event: pd.Series) -> Ints:
    """Rows of all events of the same execution, in the order of the file."""
    fusion = int(event["fusion_id"])
    if fusion < 0:
        return np.empty(0, np.int64)
    events = lanes.run.events
    rows: Ints = np.flatnonzero(events["fusion_id"].to_numpy() == fusion)
    for column in ("pass_id", "segment"):
        rows = rows[(events[column].iloc[rows] == event[column]).to_numpy(bool)]
    return rows


def _execution_facts(lanes: Lanes, fused: Ints, operations: Ints) -> tuple[tuple[str, str], ...]:
    """Extent of an execution, its payload, and the time of each of its activities."""
    if not len(fused):
        return ()
    rows = lanes.run.events[["activity", "phase", "start_ns", "dur_ns", "size_bytes"]].iloc[fused]
    start = rows["start_ns"].to_numpy(np.int64)
    end = start + rows["dur_ns"].to_numpy(np.int64).clip(min=0)
    sizes = lanes.run.events["size_bytes"].iloc[operations]
    payload = "unknown" if sizes.isna().any() else units.byte_size(float(sizes.sum()))
    facts = [
        ("starts", place_text(int(start.min()) - lanes.origin_ns)),
        ("takes", length_text(int(end.max() - start.min()))),
        ("payload", payload),
    ]
    is_activity = (rows["phase"] == "activity").to_numpy(bool)
    activity = rows["activity"].astype("object").to_numpy()
    for name in dict.fromkeys(activity[is_activity].tolist()):
        # Horovod writes each activity once per tensor: its first start to its last end.
        own = is_activity & (activity == name)
        facts.append((str(name), length_text(int(end[own].max() - start[own].min()))))
    return tuple(facts)


def _neighbours(lanes: Lanes, row: int, event: pd.Series) -> tuple[int, int]:
    """Rows of the previous and the next event of the same name, rank, source and tensor."""
    events = lanes.run.events
    same = np.ones(len(events), bool)
    for column in ("activity", "rank", "tensor", "source", "pass_id"):
        same &= (events[column] == event[column]).to_numpy(bool)
    places = np.flatnonzero(same)
    start = events["start_ns"].to_numpy(np.int64)[places]
    places = places[np.argsort(start, kind="stable")]
    at = int(np.flatnonzero(places == row)[0])
    before = int(places[at - 1]) if at > 0 else -1
    after = int(places[at + 1]) if at + 1 < len(places) else -1
    return before, after


def _size(value: object, missing: str = units.MISSING) -> str:
    return missing if pd.isna(value) else units.byte_size(float(str(value)))  # type: ignore[call-overload]


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float) else None
