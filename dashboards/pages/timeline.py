"""The time axis of all ranks and of Horovod, down to the single event."""

from collections.abc import Callable, Mapping

import dash_mantine_components as dmc
import numpy as np
from dash import ALL, Dash, Input, Output, State, ctx, html, no_update

from hvdprof import units
from hvdprof.dashboards import ids
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.timeline_details import details_of
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.guard import mapping_or_none, text_or_none
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.timeline_window import (
    MEASURE,
    at_window,
    dragged,
    drawn_span,
    is_measuring,
    measured_of,
    moved,
    window_of,
)
from hvdprof.dashboards.view import View
from hvdprof.figures.timeline.event_details import event_facts, timeline_passes
from hvdprof.figures.timeline.timeline_figure import TimelineView, timeline_view
from hvdprof.figures.timeline.timeline_lanes import LaneKind, Lanes, pass_lanes
from hvdprof.figures.timeline.timeline_overlay import let_measure, mark_measured, mark_selected
from hvdprof.figures.timeline.viewport import Ints

PATH = "/timeline"
TITLE = "Timeline"
KEYS = ("np", "pass", "lanes", "tensor", "drag")

_ABOUT = (
    "Drag across the figure to zoom or to measure; double-click shows the whole pass. Above 2,000 "
    "events, a bin has the colour of its largest category, paler where less of the bin is busy. "
    "Rank 0 writes Horovod's timeline."
)
_BUTTONS = (
    ("left", "◀", "Earlier"),
    ("right", "▶", "Later"),
    ("in", "+", "Zoom in"),
    ("out", "-", "Zoom out"),
    ("whole", "Whole pass", "Show the whole pass"),
)
_ZOOM = "zoom"
_DRAGS = [
    {"value": _ZOOM, "label": "Drag zooms"},
    {"value": MEASURE, "label": "Drag measures"},
]
_LANE_NAMES = [
    {"value": LaneKind.EXECUTIONS.value, "label": "Horovod: executions"},
    {"value": LaneKind.TENSORS.value, "label": "Horovod: tensors"},
]


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The figure of the pass in the address, and the controls to move in it."""
    run_id = str(view.run)
    passes = timeline_passes(runs.run(run_id))
    if not passes:
        return empty_state(
            "No events on a time axis in this run.",
            "hvdprof bench --preset quick",
            about="This page shows the phases of every rank, from recorder files of hvdprof bench "
            "or hvdprof run, and Horovod's timeline, also from a standalone timeline.json.",
        )
    lanes = _lanes(runs, view)
    drawn = drawing(lanes, view)
    drawn.figure.update_layout(uirevision=None)
    return dmc.Stack(
        [
            _choices(view, passes, lanes),
            figure_card(
                "timeline",
                "Timeline",
                drawn.figure,
                about=_ABOUT,
                above=[
                    _moves(view),
                    html.Div(drawn.caption, id=ids.TIMELINE_CAPTION, className="about"),
                ],
                graph_id=ids.TIMELINE_FIGURE,
            ),
            html.Div(details_of(lanes, view), id=ids.TIMELINE_DETAILS),
        ],
        gap="md",
    )


def register(app: Dash, runs: RunStore) -> None:
    """Callbacks: gestures change the address, the address changes the figure."""
    _register_drawing(app, runs)
    _register_moves(app, runs)


def drawing(lanes: Lanes, view: View) -> TimelineView:
    """The figure of a view, with the clicked event framed and the measured span shaded."""
    window = window_of(view, lanes)
    shown = shown_lanes(lanes, view)
    drawn = timeline_view(lanes, shown, window.first_ns, window.last_ns)
    row = view.whole("event")
    facts = None if row is None else event_facts(lanes, row)
    if facts is not None and facts.lane in shown:
        place = int(np.flatnonzero(shown == facts.lane)[0])
        mark_selected(drawn.figure, place, facts.start_ns / 1e6, facts.dur_ns / 1e6)
    if is_measuring(view):
        let_measure(drawn.figure)
    measured = measured_of(view)
    if measured is not None:
        mark_measured(drawn.figure, measured.first_ns / 1e6, measured.last_ns / 1e6)
    return drawn


def shown_lanes(lanes: Lanes, view: View) -> Ints:
    """Numbers of the lanes: all, or those of ranks and of the tensors that match the search."""
    return lanes.matching(view.text("tensor") or "")


def chosen_pass(passes: dict[str, str], view: View) -> str:
    """The pass in the address if it exists, else the first one with that number of ranks."""
    if view.pass_id in passes:
        return str(view.pass_id)
    ranks = " 1 rank)" if view.np == 1 else f" {units.count(view.np or 0)} ranks)"
    return next((one for one, label in passes.items() if label.endswith(ranks)), next(iter(passes)))


def clicked(view: View, lanes: Lanes, click: Mapping[str, object]) -> View:
    """The view after a click in the figure: an event, or a position in a lane of bins."""
    points = click.get("points")
    point = points[0] if isinstance(points, list) and points else None
    if not isinstance(point, dict):
        return view
    row, x, y = (point.get(key) for key in ("customdata", "x", "y"))
    if isinstance(row, list):
        row = row[0] if row else None
    if isinstance(row, int | float):
        return view.changed(event=int(row), lane=None, at=None)
    shown = shown_lanes(lanes, view)
    # A mark is drawn a little below the middle of its lane.
    if isinstance(x, int | float) and isinstance(y, int | float) and 0 <= y < len(shown):
        return view.changed(event=None, lane=int(shown[int(y)]), at=round(x * 1e6))
    return view


def _lanes(runs: RunStore, view: View) -> Lanes:
    run_id = str(view.run)
    passes = timeline_passes(runs.run(run_id))
    pass_id = chosen_pass(passes, view)
    is_by_tensor = view.text("lanes") == LaneKind.TENSORS or bool(view.text("tensor"))
    kind = LaneKind.TENSORS if is_by_tensor else LaneKind.EXECUTIONS
    return runs.made(
        run_id, ("lanes", pass_id, kind), lambda: pass_lanes(runs.run(run_id), pass_id, kind)
    )


def _choices(view: View, passes: dict[str, str], lanes: Lanes) -> dmc.Group:
    options = [{"value": one, "label": label} for one, label in passes.items()]
    kind = view.text("lanes")
    return dmc.Group(
        [
            view_select(
                "pass", "Pass", options, lanes.pass_id, description="Pass", className="choice"
            ),
            view_select(
                "lanes",
                "Lanes below the ranks",
                _LANE_NAMES,
                LaneKind.TENSORS.value if kind == LaneKind.TENSORS else LaneKind.EXECUTIONS.value,
                description="Lanes below the ranks",
                className="choice",
            ),
            dmc.TextInput(
                id={"type": ids.CONTROL, "key": "tensor", "shown": view.text("tensor") or ""},
                value=view.text("tensor") or "",
                description="Search a tensor",
                **{"aria-label": "Search a tensor"},
                placeholder="part of its name, Enter",
                debounce=True,
                className="choice",
            ),
            dmc.NumberInput(
                id=ids.TIMELINE_STEP,
                description="Go to step",
                **{"aria-label": "Go to step"},
                placeholder=_step_range(lanes),
                allowDecimal=False,
                debounce=True,
                w=140,
            ),
        ],
        gap="sm",
        align="end",
    )


def _step_range(lanes: Lanes) -> str:
    if not len(lanes.steps.number):
        return "no steps"
    return f"{lanes.steps.number.min()} to {lanes.steps.number.max()}"


def _moves(view: View) -> dmc.Group:
    drag = MEASURE if is_measuring(view) else _ZOOM
    return dmc.Group(
        [
            dmc.SegmentedControl(
                id={"type": ids.CONTROL, "key": "drag", "shown": drag},
                data=_DRAGS,
                value=drag,
                size="xs",
                **{"aria-label": "Mode of dragging"},
            ),
        ]
        + [
            dmc.Button(
                text,
                id={"type": ids.TIMELINE_MOVE, "to": move},
                size="compact-sm",
                variant="default",
                **{"aria-label": name},
            )
            for move, text, name in _BUTTONS
        ],
        gap=4,
    )


def _register_drawing(app: Dash, runs: RunStore) -> None:
    @app.callback(
        Output(ids.TIMELINE_FIGURE, "figure"),
        Output(ids.TIMELINE_CAPTION, "children"),
        Output(ids.TIMELINE_DETAILS, "children"),
        Input(ids.LOCATION, "search"),
        State(ids.LOCATION, "pathname"),
        prevent_initial_call=True,
    )
    def draw(search: object, pathname: object) -> tuple[object, object, object]:
        view = View.of_address(text_or_none(pathname), text_or_none(search))
        if view.path != PATH or view.run not in runs.ids:
            return no_update, no_update, no_update
        lanes = _lanes(runs, view)
        drawn = drawing(lanes, view)
        return drawn.figure, drawn.caption, details_of(lanes, view)


def _register_moves(app: Dash, runs: RunStore) -> None:
    # One callback each: a figure reports its layout at any time, and Dash drops the pending answer
    # of a callback that is triggered again, such as the answer to a click.
    @app.callback(
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input({"type": ids.TIMELINE_MOVE, "to": ALL}, "n_clicks"),
        State(ids.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def move(_clicks: object, search: object) -> object:
        to = str(ctx.triggered_id["to"])
        return _steered(runs, search, lambda view, lanes: _moved(view, lanes, to))

    @app.callback(
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(ids.TIMELINE_FIGURE, "relayoutData"),
        State(ids.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def drag(relayout: object, search: object) -> object:
        area = mapping_or_none(relayout)
        return _steered(runs, search, lambda view, lanes: _dragged(view, lanes, area))

    @app.callback(
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(ids.TIMELINE_FIGURE, "clickData"),
        State(ids.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def click(data: object, search: object) -> object:
        point = mapping_or_none(data) or {}
        return _steered(runs, search, lambda view, lanes: clicked(view, lanes, point))

    @app.callback(
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(ids.TIMELINE_STEP, "value"),
        State(ids.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def go_to(step: object, search: object) -> object:
        at_step = {"step": step if isinstance(step, int) else None, "from": None, "to": None}
        return _steered(runs, search, lambda view, _lanes: view.changed(**at_step))


def _steered(runs: RunStore, search: object, change: Callable[[View, Lanes], View]) -> object:
    """The address after a change of the view; no_update without a request or a change."""
    view = View.of_address(PATH, text_or_none(search))
    if view.run not in runs.ids or not any(one["value"] for one in ctx.triggered):
        return no_update
    changed = change(view, _lanes(runs, view))
    return changed.search if changed != view else no_update


def _moved(view: View, lanes: Lanes, to: str) -> View:
    window = moved(window_of(view, lanes), to, lanes.length_ns)
    return at_window(view, window, lanes.length_ns)


def _dragged(view: View, lanes: Lanes, area: Mapping[str, object] | None) -> View:
    measured = drawn_span(area) if is_measuring(view) else None
    if measured is not None:
        return view.changed(measure_from=measured.first_ns, measure_to=measured.last_ns)
    window = dragged(area, lanes.length_ns)
    return view if window is None else at_window(view, window, lanes.length_ns)
