"""Places in a pass: its segments, where it opens, what one searches, why lanes are empty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.rank_times import StepKind
from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.timeline_rows import Row, RowKind
from hvdprof.figures.timeline.turn_axis import length_text
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.figures.typical_step import ActingSteps, finding_steps
from hvdprof.model.run import RunAnalysis

MOST_HITS = 500

_MOST_STEPS = 1_000

_WITHOUT = {"torch": "plain PyTorch without Horovod", "ddp": "DDP: no Horovod timeline"}
# A gap that a reader can see.
_SMALLEST_SHARE = 0.01


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


@dataclass(frozen=True, slots=True)
class Opening:
    """The first window, three steps wide, and the steps that one goes through.

    Times are ns since the start of the pass. ``finding`` is the title of the finding that acts in
    these steps, empty without one. ``steps`` are their starts and ends, at most 1,000.
    ``unwritten`` says why Horovod's lanes are empty in all of these steps; empty where not all are.
    """

    first_ns: int
    last_ns: int
    finding: str
    steps: list[list[int]]
    unwritten: str = ""


def opening_of(analysis: RunAnalysis | None, lanes: Lanes) -> Opening:
    """The window around a typical step of the finding, or around the middle steady one.

    Horovod may stop to write before the pass ends: of steps on both sides, the nearest one that its
    timeline holds is shown. The whole pass where it has no steps.
    """
    steps = lanes.steps
    title, found = ("", None) if analysis is None else _finding(analysis, lanes.pass_id)
    if found is not None and found.launch[1] in steps.segments:
        of_segment = steps.segment == steps.segments.index(found.launch[1])
        places = np.flatnonzero(of_segment & np.isin(steps.number, found.steps))
        middle = np.flatnonzero(of_segment & (steps.number == found.typical))
    else:
        title, places = "", np.flatnonzero(~steps.is_warmup)
        middle = places[len(places) // 2 :]
    if not len(middle):
        return Opening(0, lanes.length_ns, "", [])
    held = _held(lanes, places)
    wanted = int(middle[0])
    shown = int(held[np.abs(held - wanted).argmin()]) if len(held) else wanted
    extents = np.stack([steps.start_ns[places], steps.end_ns[places]], axis=1) - lanes.origin_ns
    start, end = int(steps.start_ns[shown]), int(steps.end_ns[shown])
    first, last = lanes.axis.around(start - lanes.origin_ns, end - lanes.origin_ns, 1.0)
    has_lanes = len(lanes.names) > lanes.num_ranks > 0
    why = _unwritten(lanes, shown, title) if has_lanes and not len(held) else ""
    return Opening(first, last, title, extents[:_MOST_STEPS].tolist(), why)


def _held(lanes: Lanes, places: Ints) -> Ints:
    """Of the places of steps those that Horovod's timeline holds."""
    steps = lanes.steps
    begin, end = lanes.written_ns[steps.segment[places]].T
    held: Ints = places[(steps.start_ns[places] >= begin) & (steps.end_ns[places] <= end)]
    return held


def _unwritten(lanes: Lanes, place: int, title: str) -> str:
    """That the timeline holds no step of the finding, and which steps of its segment it holds."""
    steps = lanes.steps
    held = _held(lanes, np.flatnonzero(steps.segment == steps.segment[place]))
    what = "step of the finding" if title else "steady step"
    if not len(held):
        return f"its timeline holds no {what}"
    first, last = int(steps.number[held].min()), int(steps.number[held].max())
    return f"its timeline holds steps {first} to {last}, no {what}"


def _finding(analysis: RunAnalysis, pass_id: str) -> tuple[str, ActingSteps | None]:
    """The first finding on a cell that has steps in this pass."""
    for finding in analysis.findings.to_dict("records"):
        if not finding["model"] or pd.isna(finding["np"]) or not finding["cause_id"]:
            continue
        found = finding_steps(analysis, finding, pass_id)
        if found is not None:
            return str(finding["title"]), found
    return "", None


def segment_spans(lanes: Lanes) -> list[dict[str, object]]:
    """Name, first and last time of each segment of the pass, in order of time."""
    steps = lanes.steps
    found = []
    for number, name in enumerate(steps.segments):
        own = steps.segment == number
        found.append(
            (
                int(steps.start_ns[own].min()) - lanes.origin_ns,
                int(steps.end_ns[own].max()) - lanes.origin_ns,
                name,
                int(steps.number[own].min()),
                int(steps.number[own].max()),
            )
        )
    return [
        {"from": first, "to": last, "name": name, "first_step": low, "last_step": high}
        for first, last, name, low, high in sorted(found)
    ]


def lane_notes(
    lanes: Lanes, rows: Sequence[Row], segments: pd.DataFrame
) -> list[dict[str, object]]:
    """Texts for the parts of the pass in which Horovod's lanes hold nothing.

    Each has ``from`` and ``to``, ns since the start of the pass, and the ``lane`` that it is
    written on, the first one below the ranks; -1 for a text about a pass without any such lane.
    """
    of_pass = segments[(segments["pass_id"] == lanes.pass_id).to_numpy(bool)]
    below = [row.lane for row in rows if row.kind is RowKind.LANE and row.lane >= lanes.num_ranks]
    if len(lanes.names) == lanes.num_ranks:
        if of_pass.empty:
            return []
        mode = str(of_pass["mode"].iloc[0])
        text = f"No Horovod timeline in this pass ({mode}); trace passes hold one."
        return [{"from": 0, "to": lanes.length_ns, "lane": -1, "text": text}]
    if not below:
        return []
    engines = dict(zip(of_pass["segment"].astype(str), of_pass["engine"].astype(str), strict=True))
    steps = lanes.steps
    found: list[dict[str, object]] = []
    for number, name in enumerate(steps.segments):
        own = steps.segment == number
        first, last = int(steps.start_ns[own].min()), int(steps.end_ns[own].max())
        begin, end = (int(time) for time in lanes.written_ns[number])
        if begin < 0:
            why = _WITHOUT.get(engines.get(name, ""), "no Horovod timeline in this segment")
            gaps = [(first, last, why)]
        else:
            starts = (
                steps.number[own][np.searchsorted(steps.end_ns[own], begin)] if own.any() else 0
            )
            gaps = [
                (first, begin, f"recording starts in step {starts}"),
                (end, last, "recording ends before the segment"),
            ]
        found += [
            {
                "from": start - lanes.origin_ns,
                "to": stop - lanes.origin_ns,
                "lane": below[0],
                "text": text,
            }
            for start, stop, text in gaps
            if stop - start > _SMALLEST_SHARE * (last - first)
        ]
    return found
