"""Callbacks: the ids of components, and functions that run in the browser."""

from typing import Any

from dash import ClientsideFunction, Dash


def run_in_browser(app: Dash, function: str, *wiring: Any, first: bool = True) -> None:
    """Register a function that runs in the browser.

    Args:
        app: The app.
        function: Name of the function in ``assets/hvdprof.js``.
        wiring: Outputs, inputs and states, as for any callback.
        first: Whether it also runs when the components appear.
    """
    untyped: Any = app
    untyped.clientside_callback(
        ClientsideFunction("hvdprof", function), *wiring, prevent_initial_call=not first
    )


LOCATION = "location"
HEADER_LINKS = "header-links"
HEADER_RUN = "header-run"
HEADER_DRAWN = "header-drawn"
NOTICE = "notice"
PAGE = "page"
DRAWN = "drawn"
DUE = "due"
WAIT = "wait"
CLOCK = "clock"

CONTROL = "view-control"
"""Type of the ids of ``components.view_control``; their other parts are ``key`` and ``shown``."""

GLOSSARY = "glossary"
GLOSSARY_SEARCH = "glossary-search"

STEPS_FIRST = "steps-first"
STEPS_LAST = "steps-last"
STEPS_ALL = "steps-all"
STEPS_GRAPH = "steps-graph"

TIMELINE = "timeline"
TIMELINE_ANSWER = "timeline-answer"
TIMELINE_SEARCH = "timeline-search"

RUNS_GRID = "runs-grid"
RUNS_SEARCH = "runs-search"
RUNS_COMPARE = "runs-compare"
RUNS_HISTORY = "runs-history"
RUNS_DELETE = "runs-delete"
RUNS_BAR = "runs-bar"
RUNS_COUNT = "runs-count"
RUNS_CLEAR = "runs-clear"
RUNS_NOTE = "runs-note"
RUNS_LEFT_OUT = "runs-left-out"
RUNS_TICK = "runs-tick"

LIVE = "live"
LIVE_RUN = "live-run"
LIVE_TICK = "live-tick"

TABLE = "table"
