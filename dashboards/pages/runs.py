"""All runs, newest first: age, script, ranks, efficiency, verdict, trust and step times."""

import logging
import threading
from collections.abc import Callable, Sequence

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from hvdprof import units
from hvdprof.dashboards import ids
from hvdprof.dashboards.access import row_names
from hvdprof.dashboards.components.run_outcome import text_of_runs
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.ids import run_in_browser
from hvdprof.dashboards.pages import never_empty
from hvdprof.dashboards.run_rows import is_small, rows_of
from hvdprof.dashboards.run_store import MOST_LISTED, OLDER, RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.plain_text import printable

_LOG = logging.getLogger(__name__)

PATH = "/runs"
TITLE = "All runs"
KEYS: tuple[str, ...] = ()
lack = never_empty

MOST_READ = 20
"""Runs that the page analyzes by itself, newest first; the others when they are opened."""

_TICK_MS = 1_000
_ROW_HEIGHT = 32
_RENDERERS = {
    "name": "RunLink",
    "started": "RunAge",
    "efficiency": "EfficiencyBar",
    "steps": "Sparkline",
}
_HISTORY_PATH = "/history"
_ABOUT = (
    "The latest runs are analyzed one after the other, others when they are opened. Select runs to "
    "compare two, see their history or delete them: they move into the folder .trash beside them."
)
_COLUMNS = (
    ("name", "run", 210),
    ("started", "age", 100),
    ("what", "script", 120),
    ("np", "np", 70),
    ("verdict", "verdict", 240),
    ("efficiency", "efficiency", 170),
    ("trust", "trust", 80),
    ("steps", "step times", 120),
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of all runs."""
    grid = dag.AgGrid(
        id=ids.RUNS_GRID,
        columnDefs=[_column(*column) for column in _COLUMNS],
        rowData=rows_of(runs),
        defaultColDef={"sortable": True, "resizable": True},
        dashGridOptions={
            "domLayout": "autoHeight",
            "ensureDomOrder": True,
            "rowHeight": _ROW_HEIGHT,
            "headerHeight": _ROW_HEIGHT,
            "rowSelection": {"mode": "multiRow", "headerCheckbox": False},
            "tooltipShowDelay": 300,
            "selectionColumnDef": {"width": 36},
        },
        getRowId="params.data.id",
        className="ag-theme-quartz data-table",
    )
    tools = dmc.Group(
        [
            dmc.TextInput(
                id=ids.RUNS_SEARCH,
                placeholder="Search runs",
                size="xs",
                w=220,
                **{"aria-label": "Search runs"},
            ),
        ],
        gap="xs",
    )
    selected = html.Div(
        [
            html.Span(id=ids.RUNS_COUNT, role="status"),
            dmc.Button("Compare", id=ids.RUNS_COMPARE, size="xs"),
            dmc.Button("History", id=ids.RUNS_HISTORY, size="xs", variant="default"),
            dcc.ConfirmDialogProvider(
                dmc.Button("Delete", size="xs", variant="default"),
                id=ids.RUNS_DELETE,
                message="Move the selected runs into the folder .trash beside them?",
            ),
            dmc.Button("Clear", id=ids.RUNS_CLEAR, size="xs", variant="default"),
        ],
        id=ids.RUNS_BAR,
        className="runs-bar",
    )
    return dmc.Stack(
        [
            section(
                "Runs",
                tools,
                html.Div(id=ids.RUNS_NOTE, role="status"),
                grid,
                html.Details(
                    [
                        html.Summary("Skipped in the folder"),
                        html.Div(_left_out(runs), id=ids.RUNS_LEFT_OUT, className="about"),
                    ],
                    className="runs-skipped",
                ),
                about=_ABOUT,
            ),
            selected,
            dcc.Interval(id=ids.RUNS_TICK, interval=_TICK_MS),
        ],
        gap="md",
    )


def register(app: Dash, runs: RunStore) -> None:
    """Analyze what is missing run by run, search, compare, follow and delete."""
    run_in_browser(app, "searchRuns", Input(ids.RUNS_SEARCH, "value"), first=False)
    run_in_browser(
        app,
        "showSelected",
        Output(ids.RUNS_COUNT, "children"),
        Output(ids.RUNS_BAR, "className"),
        Input(ids.RUNS_GRID, "selectedRows"),
    )
    run_in_browser(
        app,
        "clearSelected",
        Output(ids.RUNS_GRID, "selectedRows", allow_duplicate=True),
        Input(ids.RUNS_CLEAR, "n_clicks"),
        first=False,
    )
    _register_rows(app, runs)
    _register_way(app, ids.RUNS_COMPARE, _compared)
    _register_way(app, ids.RUNS_HISTORY, _followed)
    _register_trash(app, runs)


def _left_out(runs: RunStore) -> str:
    """What of the folders is not in the list; empty where all is."""
    reasons = runs.left_out
    items = [f"{reason}: {units.count(number)}" for reason, number in reasons.items()]
    if OLDER in reasons:
        items.append(
            f"of a folder, the latest {units.count(MOST_LISTED)} are listed; to see others: "
            "hvdprof dashboard RUN..."
        )
    return "; ".join(items)


def _register_rows(app: Dash, runs: RunStore) -> None:
    reading = threading.Lock()

    @app.callback(
        Output(ids.RUNS_GRID, "rowData"),
        Output(ids.RUNS_LEFT_OUT, "children"),
        Input(ids.RUNS_TICK, "n_intervals"),
        State(ids.RUNS_GRID, "rowData"),
        State(ids.RUNS_LEFT_OUT, "children"),
        prevent_initial_call=True,
    )
    def fill(_ticks: object, shown: object, noted: object) -> tuple[object, object]:
        # Not here: an answer that is later than the next question is dropped.
        if reading.acquire(blocking=False):
            threading.Thread(target=_read_next, args=(runs, reading), daemon=True).start()
        found = rows_of(runs), _left_out(runs)
        if found == (shown, noted):
            raise PreventUpdate
        return found


def _register_way(app: Dash, button: str, way: Callable[[Sequence[str]], View | str]) -> None:
    """Let a button lead to a view of the selected runs, or say why it leads nowhere."""

    @app.callback(
        Output(ids.LOCATION, "pathname", allow_duplicate=True),
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Output(ids.RUNS_NOTE, "children", allow_duplicate=True),
        Input(button, "n_clicks"),
        State(ids.RUNS_GRID, "selectedRows"),
        prevent_initial_call=True,
    )
    def follow(clicks: object, selected: object) -> tuple[object, object, object]:
        if not clicks:
            # The button has just appeared.
            raise PreventUpdate
        found = way(row_names(selected))
        if isinstance(found, str):
            return no_update, no_update, found
        return found.path, found.search, None


def _compared(names: Sequence[str]) -> View | str:
    """The comparison of two; of one run, its page asks for the second."""
    if not 1 <= len(names) <= 2:
        return "Select two runs to compare."
    return View("/compare", dict(zip(("run", "with"), names, strict=False)))


def _followed(names: Sequence[str]) -> View | str:
    """The history of the runs; of one those of its model, of none the latest."""
    if len(names) < 2:
        return View(_HISTORY_PATH, dict(zip(("run",), names, strict=False)))
    text = text_of_runs(names)
    if text is None:
        return "Select fewer runs, or none for the latest."
    return View(_HISTORY_PATH, {"run": names[0], "history": text})


def _register_trash(app: Dash, runs: RunStore) -> None:
    @app.callback(
        Output(ids.RUNS_GRID, "rowData", allow_duplicate=True),
        Output(ids.RUNS_GRID, "selectedRows"),
        Output(ids.RUNS_NOTE, "children"),
        Input(ids.RUNS_DELETE, "submit_n_clicks"),
        State(ids.RUNS_GRID, "selectedRows"),
        prevent_initial_call=True,
    )
    def delete(clicks: object, selected: object) -> tuple[object, object, object]:
        if not clicks:
            raise PreventUpdate
        notes = [_deleted(runs, name) for name in row_names(selected)]
        return rows_of(runs), [], " ".join(notes) or "Select the runs to delete."


def _column(field: str, title: str, width: int) -> dict[str, object]:
    column: dict[str, object] = {"field": field, "headerName": title, "width": width}
    if field in _RENDERERS:
        # What it draws can change while its value stays.
        column |= {"cellRenderer": _RENDERERS[field], "equals": {"function": "false"}}
    else:
        column["tooltipField"] = field
    if field in ("name", "verdict"):
        # One line; on a phone, which has no pointer to hover with, as many as it needs.
        column |= {"wrapText": True, "autoHeight": True, "cellClass": "one-line"}
    if field == "verdict":
        # All that a standalone file has is its sentence, so that it is whole.
        rules = {"one-line": "params.data.started", "whole": "!params.data.started"}
        column |= {"cellRenderer": "RunVerdict", "cellClass": "", "cellClassRules": rules}
        column |= {"flex": 1, "minWidth": 90}
    return column


def _read_next(runs: RunStore, reading: threading.Lock) -> None:
    """Analyze the first of the latest runs whose verdict is not known, and release the lock."""
    try:
        _analyze_next(runs)
    finally:
        reading.release()


def _analyze_next(runs: RunStore) -> None:
    for run_id in runs.ids[:MOST_READ]:
        try:
            entry = runs.entry(run_id)
            if (entry and entry.problem) or runs.was_analyzed(run_id):
                continue
            if not is_small(runs, run_id):
                continue
            runs.finished(run_id)
        except HvdprofError:
            # The list says what is wrong with it, as soon as it is opened.
            continue
        except Exception:
            _LOG.exception("%s could not be analyzed", run_id)
            continue
        return


def _deleted(runs: RunStore, run_id: str) -> str:
    try:
        target = runs.move_to_trash(run_id)
    except HvdprofError as error:
        return error.message
    return f"{run_id} is in {printable(str(target.parent))}."
