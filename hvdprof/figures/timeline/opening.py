"""Where a timeline opens: at the steps of the finding that costs most, else at a steady part."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.figures.typical_step import ActingSteps, finding_steps
from hvdprof.model.run import RunAnalysis

_MOST_STEPS = 1_000


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

    Args:
        analysis: The finished analysis; ``None`` where there is none.
        lanes: The lanes of a pass of its run.
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
