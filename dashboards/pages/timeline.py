"""The time axis of all ranks and of Horovod, down to the single event.

The page holds the choice of the pass and two empty places, which ``assets/timeline_tool.js`` fills:
what the shown window says, and the timeline. Gestures move what is drawn at once, and one request
of ``timeline_answers`` brings what is missing.
"""

import dash_mantine_components as dmc
from dash import Dash, html

from hvdprof.dashboards import ids
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.section import attributes
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.timeline_answers import chosen_pass, passes_of
from hvdprof.dashboards.view import CELL_KEYS, LAUNCH_KEY, PASS_KEY, View
from hvdprof.model.tables.window_tables import WINDOWS

PATH = "/timeline"
TITLE = "Timeline"
KEYS = (*CELL_KEYS, PASS_KEY, LAUNCH_KEY)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """What the window says, the choice of the pass, and the place of the timeline."""
    run_id = str(view.run)
    passes = passes_of(runs, run_id)
    missing = lack(runs, run_id)
    if missing is not None:
        return lack_card(missing)
    pass_id = chosen_pass(passes, runs.run(run_id).segments, view)
    options = [{"value": one, "label": label} for one, label in passes.items()]
    shown = attributes(data_run=run_id, data_pass=pass_id)
    return dmc.Stack(
        [
            dmc.Group(
                [
                    html.P(id=ids.TIMELINE_ANSWER, className="timeline-answer", role="status"),
                    html.Div(id=ids.TIMELINE_SEARCH),
                    view_select(PASS_KEY, "Pass", options, pass_id, className="choice"),
                ],
                justify="space-between",
                gap="xs",
                className="timeline-head",
            ),
            html.Div(id=ids.TIMELINE, className="timeline", **shown),
        ],
        gap=4,
    )


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A light recording, or a run without events."""
    if passes_of(runs, run_id):
        return None
    if len(runs.table(run_id, WINDOWS.name)):
        return Lack(
            "A light recording holds windows of steps, no single steps on a time axis.",
            ("hvdprof run -np 4 -- python train.py",),
            about="Without --light this page shows the phases of every rank and Horovod's "
            "timeline. Warm-up, drift and parts over time are on the page Ranks.",
        )
    return Lack(
        "No events on a time axis in this run.",
        ("hvdprof bench --preset quick",),
        about="This page shows the phases of every rank, from recorder files of hvdprof bench "
        "or hvdprof run, and Horovod's timeline, also from a standalone timeline.json.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks: the browser fills the place of the timeline when it appears."""
