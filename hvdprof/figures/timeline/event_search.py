"""Places in a pass that one goes through: events by name, and steps of a kind."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.rank_times import StepKind
from hvdprof.figures.timeline.time_text import length_text
from hvdprof.figures.timeline.timeline_lanes import Lanes

MOST_HITS = 500


@dataclass(frozen=True, slots=True)
class Hit:
    """A place: ``event`` is its row in ``run.events``, -1 for a step.

    Times are nanoseconds, the start since the start of the pass. ``step`` is -1 outside steps.
    """

    name: str
    event: int
    lane: int
    rank: int
    step: int
    start_ns: int
    dur_ns: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hits:
    """The first 500 hits, and how many there are."""

    hits: tuple[Hit, ...]
    number: int


def events_named(lanes: Lanes, text: str) -> Hits:
    """The events whose activity or tensor contains a text in any case, in order of time.

    Of a fused execution each tensor of that name is a hit.

    Args:
        lanes: The lanes of a pass.
        text: What is searched for.
    """
    wanted = text.strip().casefold()
    events = lanes.run.events
    if not wanted:
        return Hits((), 0)
    is_hit = (events["pass_id"] == lanes.pass_id).to_numpy(bool)
    is_named = _contains(events["activity"], wanted) | _contains(events["tensor"], wanted)
    is_hit = is_hit & is_named & (events["phase"] != "mark").to_numpy(bool)
    places = np.flatnonzero(is_hit)
    start = events["start_ns"].to_numpy(np.int64)[places]
    places = places[np.argsort(start, kind="stable")]
    rows = events.iloc[places[:MOST_HITS]]
    hits = tuple(
        Hit(
            name=" ".join(part for part in (str(row["activity"]), str(row["tensor"])) if part),
            event=int(place),
            lane=-1,
            rank=int(row["rank"]),
            step=int(row["step"]),
            start_ns=int(row["start_ns"]) - lanes.origin_ns,
            dur_ns=max(int(row["dur_ns"]), 0),
        )
        for place, row in zip(places[:MOST_HITS], rows.to_dict("records"), strict=True)
    )
    return Hits(hits, len(places))


def steps_of_kind(lanes: Lanes, kind: StepKind) -> Hits:
    """The steps of a kind as places: in order of time, the longest in order of length."""
    steps = lanes.steps
    places = steps.of_kind(kind)
    several = len(steps.segments) > 1
    hits = tuple(
        Hit(
            name=f"step {steps.number[place]}"
            + (f" of {steps.segments[steps.segment[place]]}" if several else ""),
            event=-1,
            lane=-1,
            rank=int(steps.slowest[place]),
            step=int(steps.number[place]),
            start_ns=int(steps.start_ns[place]) - lanes.origin_ns,
            dur_ns=int(steps.length_ns[place]),
            note=length_text(int(steps.length_ns[place])),
        )
        for place in places[:MOST_HITS].tolist()
    )
    return Hits(hits, len(places))


def _contains(column: "pd.Series[str]", wanted: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each value contains the text; of a category each name is looked at once."""
    codes, names = pd.factorize(column)
    named = np.array([wanted in str(name).casefold() for name in names], dtype=bool)
    # A missing value has the code -1, which is the last place.
    return np.append(named, False)[codes]
