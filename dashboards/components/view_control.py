"""Choices of the view, such as its launch or cell: stored in the address, and nowhere else."""

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
import pandas as pd

from hvdprof.dashboards import ids
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, LAUNCH_KEY, PASS_KEY, View
from hvdprof.figures.launch import launch_label, launches_in, opening_launch
from hvdprof.figures.waterfall_figure import WaterfallCell
from hvdprof.model.cell_key import ENGINE_TITLES, HOROVOD_ENGINE, LAUNCH, LaunchKey
from hvdprof.model.run import RunAnalysis


def view_select(
    key: str,
    label: str,
    options: Sequence[str] | Sequence[dict[str, str]],
    value: str | None,
    **looks: Any,
) -> dmc.Select:
    """A list to choose from, whose choice becomes ``key`` of the address.

    The page is redrawn when the address changes, so ``key`` has to be one of its ``KEYS``.

    Args:
        key: Key of the address, such as ``np``.
        label: Name for screen readers; a ``description`` in ``looks`` is shown above the list.
        options: Texts, or mappings with ``value`` and ``label``.
        value: The current choice, also where it is a default that the address does not name.
        looks: Further properties of the component.
    """
    return dmc.Select(
        # The shown value is part of the id: only a value that differs from it was chosen.
        id={"type": ids.CONTROL, "key": key, "shown": value or ""},
        data=list(options),
        value=value,
        allowDeselect=False,
        searchable=True,
        **{"aria-label": label, **looks},
    )


_PLAIN = ENGINE_TITLES[HOROVOD_ENGINE]
_WIDTHS = {"model": 120, "np": 90, "toggles": 130}


def chosen_cell(
    cells: Sequence[WaterfallCell], view: View, model: str, np: int
) -> WaterfallCell | None:
    """The cell in the address, or the nearest to it; None without cells.

    Args:
        cells: The cells to choose from.
        view: The view in the address.
        model: The model where the address names no available one, such as that of the verdict.
        np: The number of ranks where the address names none.
    """

    def distance(cell: WaterfallCell) -> tuple[int, int, int]:
        return (
            _place(cell.model, view.text("model"), model),
            _place(cell.np, view.np, np),
            _place(cell.toggles, view.text("toggles"), _PLAIN),
        )

    return min(cells, key=distance, default=None)


def cell_selects(cells: Sequence[WaterfallCell], chosen: WaterfallCell) -> dmc.Group:
    """Lists of models, numbers of ranks and settings; only those with a choice."""
    of_model = [cell for cell in cells if cell.model == chosen.model]
    of_size = [cell for cell in of_model if cell.np == chosen.np]
    offers = (
        ("model", "Model", [cell.model for cell in cells], chosen.model),
        ("np", "Ranks", [str(cell.np) for cell in of_model], str(chosen.np)),
        ("toggles", "Setting", [cell.toggles for cell in of_size], chosen.toggles),
    )
    return dmc.Group(
        [
            view_select(
                key,
                label,
                [{"value": text, "label": _option(key, text)} for text in dict.fromkeys(values)],
                value,
                size="xs",
                w=_WIDTHS[key],
            )
            for key, label, values, value in offers
            if len(set(values)) > 1 or key == "np"
        ],
        gap=6,
        className="page-choices",
    )


def _option(key: str, text: str) -> str:
    """The text of a choice: ranks with their noun."""
    if key != "np":
        return text
    return "1 rank" if text == "1" else f"{text} ranks"


def _place(value: object, *preferred: object) -> int:
    return preferred.index(value) if value in preferred else len(preferred)


LAUNCH_KEYS = (LAUNCH_KEY, PASS_KEY, *CELL_KEYS)
"""The keys of the address; a page that uses this names them in its ``KEYS``."""

_BETWEEN = "|"
_CONTROL = {"description": "Launch", "w": 440, "maw": "100%"}


def chosen_launch(runs: RunStore, view: View, table: pd.DataFrame) -> LaunchKey | None:
    """The launch (pass_id, segment) of the address, if it is one of those in a table.

    Else one of the pass in the address, else a launch of the cell in the address, and where that
    names none, of the verdict's; None where the table is empty.
    """
    launches = launches_in(table)
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
