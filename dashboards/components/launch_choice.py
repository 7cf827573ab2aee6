"""The launch of a page: from the address, else that of the verdict."""

from collections.abc import Sequence

import dash_mantine_components as dmc
import pandas as pd

from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, LAUNCH_KEY, PASS_KEY, View
from hvdprof.figures.launch import launch_label, launches_in, opening_launch
from hvdprof.model.launch_key import LAUNCH, LaunchKey
from hvdprof.model.run import RunAnalysis

KEYS = (LAUNCH_KEY, PASS_KEY, *CELL_KEYS)
"""The keys of the address; a page that uses this names them in its ``KEYS``."""

_BETWEEN = "|"
_CONTROL = {"description": "Launch", "w": 440, "maw": "100%"}


def chosen_launch(
    runs: RunStore, view: View, table: pd.DataFrame, launches: Sequence[LaunchKey] = ()
) -> LaunchKey | None:
    """The launch (pass_id, segment) of the address, if it is one of those in a table.

    Else one of the pass in the address, else a launch of the cell in the address, and where that
    names none, of the verdict's; None where the table is empty.

    Args:
        runs: The runs.
        view: The view in the address.
        table: A table with rows of the launches to choose from.
        launches: The launches of the table, where already known.
    """
    launches = launches or launches_in(table)
    for launch in launches:
        if _BETWEEN.join(launch) == view.text(LAUNCH_KEY):
            return launch
    if any(launch[0] == view.pass_id for launch in launches):
        # A pass holds a launch of each cell.
        table = table[(table["pass_id"].astype(str) == view.pass_id).to_numpy()]
    looked = runs.finished(str(view.run))
    model, num_ranks = "", 0
    if isinstance(looked, RunAnalysis):
        model, num_ranks = looked.verdict.model, looked.verdict.np
    segments, setting = looked.run.segments, view.text("toggles") or ""
    model = view.text("model") or model
    return opening_launch(segments, table, model, view.np or num_ranks, setting)


def launch_select(
    runs: RunStore, view: View, table: pd.DataFrame, launch: LaunchKey
) -> dmc.Group | None:
    """A list of the launches in a table; nothing where there is only one.

    A launch that another page chose and that has no rows here is said to have none.
    """
    launches = launches_in(table)
    if len(launches) < 2:
        return None
    segments = runs.run(str(view.run)).segments
    options = [
        {"value": _BETWEEN.join(launch), "label": launch_label(segments, launch)}
        for launch in launches
    ]
    shown = view_select(LAUNCH_KEY, "Launch", options, _BETWEEN.join(launch), **_CONTROL)
    missing = "" if _is_asked_for(launch, view) else _missing(segments, view)
    note = [dmc.Text(f"No data here of {missing}.", size="sm", c="dimmed")] if missing else []
    return dmc.Group([shown, *note])


def _is_asked_for(launch: LaunchKey, view: View) -> bool:
    asked = view.text(LAUNCH_KEY)
    return _BETWEEN.join(launch) == asked if asked else launch[0] == view.pass_id


def pass_of_launch(view: View) -> str:
    """The pass of the launch in the address; empty where it names none."""
    return (view.text(LAUNCH_KEY) or "").partition(_BETWEEN)[0]


def _missing(segments: pd.DataFrame, view: View) -> str:
    """The launch in the address, if the run has it; empty otherwise."""
    for row in segments[[*LAUNCH]].astype(str).itertuples(index=False, name=None):
        launch = (row[0], row[1])
        if _is_asked_for(launch, view):
            return launch_label(segments, launch)
    return ""
