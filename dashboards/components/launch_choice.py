"""The launch of a page: from the address, else that of the verdict."""

from collections.abc import Sequence

import dash_mantine_components as dmc
import pandas as pd

from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, View
from hvdprof.figures.launch import launch_label, launches_in, opening_launch
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import RunAnalysis

KEY = "launch"
KEYS = (KEY, *CELL_KEYS)
"""The keys of the address; a page that uses this names them in its ``KEYS``."""

_BETWEEN = "|"
_CONTROL = {"description": "Launch", "w": 440, "maw": "100%"}


def chosen_launch(
    runs: RunStore, view: View, table: pd.DataFrame, launches: Sequence[LaunchKey] = ()
) -> LaunchKey | None:
    """The launch (pass_id, segment) of the address, if it is one of those in a table.

    Else a launch of the cell in the address, and where that names none, of the verdict's; None
    where the table is empty.

    Args:
        runs: The runs.
        view: The view in the address.
        table: A table with rows of the launches to choose from.
        launches: The launches of the table, where already known.
    """
    asked = view.text(KEY)
    for launch in launches or launches_in(table):
        if _BETWEEN.join(launch) == asked:
            return launch
    looked = runs.look(str(view.run))
    model, num_ranks = "", 0
    if isinstance(looked, RunAnalysis):
        model, num_ranks = looked.verdict.model, looked.verdict.np
    segments, setting = looked.run.segments, view.text("toggles") or ""
    model = view.text("model") or model
    return opening_launch(segments, table, model, view.np or num_ranks, setting)


def launch_select(
    runs: RunStore, view: View, table: pd.DataFrame, launch: LaunchKey
) -> dmc.Group | None:
    """A list of the launches in a table; nothing where there is only one."""
    launches = launches_in(table)
    if len(launches) < 2:
        return None
    segments = runs.run(str(view.run)).segments
    options = [
        {"value": _BETWEEN.join(one), "label": launch_label(segments, one)} for one in launches
    ]
    return dmc.Group([view_select(KEY, "Launch", options, _BETWEEN.join(launch), **_CONTROL)])
