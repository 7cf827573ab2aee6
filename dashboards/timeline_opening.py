"""Where the timeline opens: at the steps of the finding that costs most, else at a steady part."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import Window, fitted
from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.typical_step import ActingSteps, finding_steps
from hvdprof.model.run import RunAnalysis

_STEPS_WIDE = 3
_MOST_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class Opening:
    """The first window, and the steps that one goes through by keys.

    ``finding`` is the title of the finding that acts in these steps, empty without one. ``steps``
    [steps, 2] are their starts and ends, ns since the start of the pass, at most 1,000.
    """

    window: Window
    finding: str
    steps: list[list[int]]


def opening_of(runs: RunStore, run_id: str, lanes: Lanes) -> Opening:
    """Three steps around a typical one of the finding, or around the middle steady one.

    Args:
        runs: The store.
        run_id: A run of it.
        lanes: The lanes of a pass of that run.
    """
    steps = lanes.steps
    title, found = _finding(runs, run_id, lanes)
    if found is not None and found.launch[1] in steps.segments:
        of_segment = steps.segment == steps.segments.index(found.launch[1])
        places = np.flatnonzero(of_segment & np.isin(steps.number, found.steps))
        middle = np.flatnonzero(of_segment & (steps.number == found.typical))
    else:
        title, places = "", np.flatnonzero(~steps.is_warmup)
        middle = places[len(places) // 2 :]
    if not len(middle):
        return Opening(Window(0, lanes.length_ns), "", [])
    extents = np.stack([steps.start_ns[places], steps.end_ns[places]], axis=1) - lanes.origin_ns
    return Opening(_around(lanes, int(middle[0])), title, extents[:_MOST_STEPS].tolist())


def _around(lanes: Lanes, place: int) -> Window:
    """Three steps wide, the chosen one in the middle."""
    steps = lanes.steps
    beside = (_STEPS_WIDE - 1) // 2 * int(steps.length_ns[place])
    start, end = int(steps.start_ns[place]), int(steps.end_ns[place])
    origin = lanes.origin_ns
    return fitted(start - origin - beside, end - origin + beside, lanes.length_ns)


def _finding(runs: RunStore, run_id: str, lanes: Lanes) -> tuple[str, ActingSteps | None]:
    """The first finding on a cell that has steps in this pass."""
    analysis = runs.finished(run_id)
    if not isinstance(analysis, RunAnalysis):
        return "", None
    for finding in analysis.findings.to_dict("records"):
        if not finding["model"] or pd.isna(finding["np"]) or not finding["cause_id"]:
            continue
        found = finding_steps(analysis, finding, lanes.pass_id)
        if found is not None:
            return str(finding["title"]), found
    return "", None
