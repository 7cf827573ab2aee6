"""All runs: name, date, model, ranks, efficiency, largest cause and status."""

import logging
import math

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from hvdprof import units
from hvdprof.dashboards import ids
from hvdprof.dashboards.components.run_series import text_of_runs
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.guard import row_names
from hvdprof.dashboards.ids import run_in_browser
from hvdprof.dashboards.pages import never_empty
from hvdprof.dashboards.run_store import MOST_LISTED, OLDER, RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunEntry, Verdict
from hvdprof.plain_text import printable

_LOG = logging.getLogger(__name__)

PATH = "/runs"
TITLE = "All runs"
KEYS: tuple[str, ...] = ()
lack = never_empty

MOST_READ = 20
"""Runs that the page analyzes by itself, newest first; the others when they are opened."""

_TICK_MS = 1_000
_HISTORY_PATH = "/history"
_ABOUT = (
    "Efficiency and largest cause of the latest runs are computed one after the other. Select two "
    "runs to compare them, or several for their history; without a selection, history shows the "
    "latest runs. Deleted runs move into the folder .trash "
    "beside them."
)
_COLUMNS = (
    ("name", "run", 220),
    ("started", "started (UTC)", 160),
    ("what", "model or script", 160),
    ("np", "np", 90),
    ("efficiency", "efficiency", 130),
    ("cause", "largest cause", 230),
    ("status", "status", 170),
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
            "rowSelection": {"mode": "multiRow", "headerCheckbox": False},
            "tooltipShowDelay": 300,
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
            dmc.Button("Compare the two selected", id=ids.RUNS_COMPARE, size="xs"),
            dmc.Button("History of these runs", id=ids.RUNS_HISTORY, size="xs", variant="default"),
            dcc.ConfirmDialogProvider(
                dmc.Button("Delete the selected", size="xs", variant="default"),
                id=ids.RUNS_DELETE,
                message="Move the selected runs into the folder .trash beside them?",
            ),
        ],
        gap="xs",
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
            dcc.Interval(id=ids.RUNS_TICK, interval=_TICK_MS),
        ],
        gap="md",
    )


def register(app: Dash, runs: RunStore) -> None:
    """Analyze what is missing run by run, search, compare, follow and delete."""
    run_in_browser(app, "searchRuns", Input(ids.RUNS_SEARCH, "value"), first=False)
    _register_rows(app, runs)
    _register_comparison(app)
    _register_history(app)
    _register_trash(app, runs)


def rows_of(runs: RunStore) -> list[dict[str, object]]:
    """A row for each run: what its manifest says, and its verdict where it is known."""
    return [_row(runs, run_id) for run_id in runs.ids]


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
    @app.callback(
        Output(ids.RUNS_GRID, "rowData"),
        Output(ids.RUNS_LEFT_OUT, "children"),
        Input(ids.RUNS_TICK, "n_intervals"),
        State(ids.RUNS_GRID, "rowData"),
        State(ids.RUNS_LEFT_OUT, "children"),
        prevent_initial_call=True,
    )
    def fill(_ticks: object, shown: object, noted: object) -> tuple[object, object]:
        _read_next(runs)
        found = rows_of(runs), _left_out(runs)
        if found == (shown, noted):
            raise PreventUpdate
        return found


def _register_comparison(app: Dash) -> None:
    @app.callback(
        Output(ids.LOCATION, "pathname", allow_duplicate=True),
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Output(ids.RUNS_NOTE, "children", allow_duplicate=True),
        Input(ids.RUNS_COMPARE, "n_clicks"),
        State(ids.RUNS_GRID, "selectedRows"),
        prevent_initial_call=True,
    )
    def compare(clicks: object, selected: object) -> tuple[object, object, object]:
        if not clicks:
            # The button has just appeared.
            raise PreventUpdate
        names = row_names(selected)
        if len(names) != 2:
            return no_update, no_update, "Select two runs to compare."
        view = View("/compare", {"run": names[0], "with": names[1]})
        return view.path, view.search, None


def _register_history(app: Dash) -> None:
    @app.callback(
        Output(ids.LOCATION, "pathname", allow_duplicate=True),
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Output(ids.RUNS_NOTE, "children", allow_duplicate=True),
        Input(ids.RUNS_HISTORY, "n_clicks"),
        State(ids.RUNS_GRID, "selectedRows"),
        prevent_initial_call=True,
    )
    def history(clicks: object, selected: object) -> tuple[object, object, object]:
        if not clicks:
            raise PreventUpdate
        names = row_names(selected)
        if not names:
            return _HISTORY_PATH, "", None
        if len(names) == 1:
            # The runs of the same model as the selected one.
            return _HISTORY_PATH, View(_HISTORY_PATH, {"run": names[0]}).search, None
        text = text_of_runs(names)
        if text is None:
            return no_update, no_update, "Select fewer runs, or none for the latest."
        view = View(_HISTORY_PATH, {"run": names[0], "history": text})
        return view.path, view.search, None


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
    column["tooltipField"] = "efficiency_text" if field == "efficiency" else field
    # Cut texts cannot be read on a touch screen, which has no pointer to hover with.
    column |= {"wrapText": True, "autoHeight": True, "cellClass": "wrapped"}
    if field == "name":
        column["cellRenderer"] = "RunLink"
    if field == "efficiency":
        column["valueFormatter"] = {"function": "params.data.efficiency_text"}
    return column


def _row(runs: RunStore, run_id: str) -> dict[str, object]:
    try:
        entry, verdict = runs.entry(run_id), runs.known_verdict(run_id)
        return _texts(run_id, entry, verdict)
    except HvdprofError as error:
        return _texts(run_id, None, None) | {"status": error.message}
    except Exception as error:
        # One run with unusual data takes no other from the list.
        _LOG.exception("The row of %s could not be made", run_id)
        status = f"not shown: {type(error).__name__}; the log of the dashboard has the traceback"
        return _texts(run_id, None, None) | {"status": status}


def _texts(run_id: str, entry: RunEntry | None, verdict: Verdict | None) -> dict[str, object]:
    known = verdict is not None and not math.isnan(verdict.efficiency)
    return {
        "id": run_id,
        "name": run_id,
        "href": View("/", {"run": run_id}).href,
        "started": entry.created_at[:16].replace("T", " ") if entry else "",
        "what": ", ".join(entry.models) if entry else "standalone file",
        "np": ", ".join(map(str, entry.sizes)) if entry else "",
        "efficiency": verdict.efficiency if verdict is not None and known else None,
        "efficiency_text": _efficiency(verdict) if known else "",
        "cause": _cause(verdict),
        "status": status_of(entry) if entry else "",
    }


def status_of(entry: RunEntry) -> str:
    """The status of a run with its progress while it is measured, or why it cannot be read."""
    if entry.problem:
        return entry.problem
    if entry.num_ended < entry.num_passes:
        ended = units.count(entry.num_ended)
        return f"{entry.status}: {ended} of {units.count(entry.num_passes)} passes"
    return entry.status


def _efficiency(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return units.percent_interval(
        verdict.efficiency, verdict.efficiency_low, verdict.efficiency_high
    )


def _cause(verdict: Verdict | None) -> str:
    if verdict is None or not verdict.biggest_loss:
        return ""
    return f"{verdict.biggest_loss}, {units.percent(verdict.biggest_loss_share, 0)}"


def _read_next(runs: RunStore) -> None:
    """Analyze the first of the latest runs whose verdict is not known."""
    for run_id in runs.ids[:MOST_READ]:
        try:
            entry = runs.entry(run_id)
            if entry is None or entry.problem or runs.was_analyzed(run_id):
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
