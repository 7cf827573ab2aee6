"""The frame of every page: navigation, selection of the run, light and dark scheme."""

import logging
from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import ALL, Dash, Input, Output, State, ctx, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from hvdprof.dashboards import ids, navigation
from hvdprof.dashboards.access import text_or_none
from hvdprof.dashboards.components import empty_state
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.ids import run_in_browser
from hvdprof.dashboards.navigation import lacks_of, links_beside, tab_links
from hvdprof.dashboards.pages import Page, Tab
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError

_LOG = logging.getLogger(__name__)

RUNS_PATH = "/runs"
"""The page of all runs, which is about none of them."""

LIVE_PATH = "/live"
"""The page that follows a run by itself."""

OLD_PATHS: dict[str, str] = {navigation.OLD_PATH: "/", "/stalls": "/ranks", "/breakdown": "/ranks"}
"""Addresses of pages that have moved, and where each leads."""


def register(app: Dash, runs: RunStore, tabs: Sequence[Tab]) -> None:
    """Update the shell with the address, and the address with the choices in the page."""
    _register_page(app, runs, tabs)
    _register_header(app, runs, tabs)
    _register_controls(app, runs, tabs)
    _register_notice(app, runs)
    run_in_browser(app, "settleAddress", Input(ids.DRAWN, "data"))
    run_in_browser(app, "stayInSight", Input(ids.DUE, "data"), first=False)
    run_in_browser(app, "showTab", Input(ids.HEADER_DRAWN, "data"))


def page_for(pages: Sequence[Page], path: str) -> Page | None:
    """The page at a path, which may be an old one; None for an unknown path."""
    return next((page for page in pages if OLD_PATHS.get(path, path) == page.PATH), None)


def start_page(
    pages: Sequence[Page], runs: RunStore, pathname: str | None, search: str | None
) -> Page | None:
    """The page at an address; the list of runs where the address names none of several."""
    view = View.of_address(pathname, search)
    if view.path == pages[0].PATH and view.run is None and len(runs.ids) > 1:
        return page_for(pages, RUNS_PATH)
    return page_for(pages, view.path)


def resolved(runs: RunStore, pathname: str | None, search: str | None) -> View:
    """The view at an address; the first run where the address names none."""
    view = View.of_address(pathname, search)
    if view.run is not None:
        return view
    return view.changed(run=next(iter(runs.ids), None))


def content(page: Page | None, runs: RunStore, view: View) -> Component | dmc.Paper:
    """The content of a page for a view, or the reason why it cannot be shown."""
    if page is None:
        return empty_state.no_page(view)
    if view.run is None or not runs.ids:
        return empty_state.no_run()
    if view.run not in runs.ids:
        return empty_state.no_such_run(view.run, view.changed(run=None).href)
    try:
        return page.layout(runs, view)
    except HvdprofError as error:
        return empty_state.problem_alert(error)
    except Exception as error:
        # A bug with unusual data: the other pages still work, and the log has the traceback.
        _LOG.exception("The page %s of %s could not be drawn", page.TITLE, view.run)
        return empty_state.fault_alert(page.TITLE, error)


def _register_page(app: Dash, runs: RunStore, tabs: Sequence[Tab]) -> None:
    pages = [page for tab in tabs for page in tab.pages]

    def due(
        pathname: object, search: object, drawn: object
    ) -> tuple[Page | None, View, dict[str, object]]:
        """The page and view at an address, and what was drawn by then; stops where it is drawn."""
        view = resolved(runs, text_or_none(pathname), text_or_none(search))
        page = start_page(pages, runs, text_or_none(pathname), text_or_none(search))
        known_keys, title = ((), "Not found") if page is None else (page.KEYS, page.TITLE)
        keys = [[key, view.text(key)] for key in ("run", *known_keys)]
        new: dict[str, object] = {
            "path": view.path if page is None else page.PATH,
            "title": f"{title} · hvdprof",
            "keys": keys,
            "is_there": page is not None and view.run in runs.ids,
            # The first page follows a run that is being measured.
            "progress": _progress(runs, view.run) if page is pages[0] else "",
        }
        if isinstance(drawn, dict) and new == {key: drawn.get(key) for key in new}:
            raise PreventUpdate
        return page, view, new

    # Of its own: while the page itself is asked for, its content is hidden.
    @app.callback(
        Output(ids.DUE, "data"),
        Input(ids.CLOCK, "n_intervals"),
        State(ids.LOCATION, "pathname"),
        State(ids.LOCATION, "search"),
        State(ids.DRAWN, "data"),
        prevent_initial_call=True,
    )
    def look(ticks: object, pathname: object, search: object, drawn: object) -> object:
        due(pathname, search, drawn)
        return ticks

    @app.callback(
        Output(ids.PAGE, "children"),
        Output(ids.DRAWN, "data"),
        Input(ids.LOCATION, "pathname"),
        Input(ids.LOCATION, "search"),
        Input(ids.DUE, "data"),
        State(ids.DRAWN, "data"),
        # A run that takes longer to read than a look would be asked for again, and the answer that
        # comes first be dropped.
        running=[(Output(ids.CLOCK, "disabled"), True, False)],
    )
    def show(
        pathname: object, search: object, _due: object, drawn: object
    ) -> tuple[object, object]:
        page, view, new = due(pathname, search, drawn)
        title, is_there = "Not found" if page is None else page.TITLE, new["is_there"]
        is_of_run = is_there and (page is None or page.PATH != RUNS_PATH)
        changed_ns = _changed_ns(runs, view.run)
        heading = [] if page is pages[0] else [html.H1(title, className="unseen")]
        shown = content(page, runs, view)
        beside = links_beside(tabs, page, view, lacks_of(tabs, runs, view.run)) if is_there else []
        # As a text: larger than the integers that a browser represents exactly.
        state = {"run": view.run if is_of_run else None, "changed": str(changed_ns)}
        return [*heading, *beside, shown], new | state


def _register_header(app: Dash, runs: RunStore, tabs: Sequence[Tab]) -> None:
    pages = [page for tab in tabs for page in tab.pages]

    def drawn_anew(pathname: object, search: object, drawn: object) -> tuple[object, ...]:
        view = resolved(runs, text_or_none(pathname), text_or_none(search))
        page = start_page(pages, runs, text_or_none(pathname), text_or_none(search))
        run_ids = runs.ids
        if view.run not in run_ids:
            view = view.changed(run=next(iter(run_ids), None))
        lacks = lacks_of(tabs, runs, view.run)
        is_open = bool(_progress(runs, view.run))
        # The list of all runs is about none of them.
        choice = None if page is not None and page.PATH == RUNS_PATH else view.run
        new = {"links": [view.path, view.at("/").href, [*lacks], is_open], "run": [choice, run_ids]}
        old = drawn if isinstance(drawn, dict) else {}
        changed = [name for name in new if new[name] != old.get(name)]
        if not changed:
            raise PreventUpdate
        of_tabs = tab_links(tabs, page, view, lacks, is_open=is_open)
        choices = [] if choice is None else [view_select("run", "Run", run_ids, choice)]
        return (
            of_tabs if "links" in changed else no_update,
            # A list that is drawn anew closes under the hand of a reader who has opened it.
            choices if "run" in changed else no_update,
            new,
        )

    @app.callback(
        Output(ids.HEADER_LINKS, "children"),
        Output(ids.HEADER_RUN, "children"),
        Output(ids.HEADER_DRAWN, "data"),
        Input(ids.LOCATION, "pathname"),
        Input(ids.LOCATION, "search"),
        Input(ids.CLOCK, "n_intervals"),
        State(ids.HEADER_DRAWN, "data"),
    )
    def show(pathname: object, search: object, _ticks: object, drawn: object) -> tuple[object, ...]:
        return drawn_anew(pathname, search, drawn)

    # Of its own: the first header would wait for the page, whose run is read meanwhile.
    @app.callback(
        Output(ids.HEADER_LINKS, "children", allow_duplicate=True),
        Output(ids.HEADER_RUN, "children", allow_duplicate=True),
        Output(ids.HEADER_DRAWN, "data", allow_duplicate=True),
        Input(ids.DRAWN, "data"),
        State(ids.LOCATION, "pathname"),
        State(ids.LOCATION, "search"),
        State(ids.HEADER_DRAWN, "data"),
        prevent_initial_call=True,
    )
    def grey(_page: object, pathname: object, search: object, drawn: object) -> tuple[object, ...]:
        return drawn_anew(pathname, search, drawn)


def _register_controls(app: Dash, runs: RunStore, tabs: Sequence[Tab]) -> None:
    pages = [page for tab in tabs for page in tab.pages]

    @app.callback(
        Output(ids.LOCATION, "search", allow_duplicate=True),
        # With the address: a tab that is opened before the header is drawn anew has the choice.
        Output(ids.HEADER_LINKS, "children", allow_duplicate=True),
        Output(ids.DRAWN, "data", allow_duplicate=True),
        Output(ids.HEADER_DRAWN, "data", allow_duplicate=True),
        Input({"type": ids.CONTROL, "key": ALL, "shown": ALL}, "value"),
        State(ids.LOCATION, "pathname"),
        State(ids.LOCATION, "search"),
        State(ids.DRAWN, "data"),
        prevent_initial_call=True,
    )
    def steer(
        _values: object, pathname: object, search: object, drawn: object
    ) -> tuple[object, ...]:
        view = resolved(runs, text_or_none(pathname), text_or_none(search))
        changes = {
            str(control["id"]["key"]): text_or_none(control.get("value"))
            for control in ctx.inputs_list[0]
            if control.get("value") != control["id"]["shown"]
        }
        if changes.get("run") is not None:
            changes = {"run": changes["run"]}
        changed = view.changed(**changes)
        if changed == view:
            raise PreventUpdate
        # The control shows another value than was drawn. Going back before the new view is drawn
        # would keep that value if the drawn state still counted.
        keys = drawn.get("keys") if isinstance(drawn, dict) else None
        named = keys if isinstance(keys, list) else []
        names = [key[0] for key in named if isinstance(key, list) and key]
        is_drawn = any(name in names for name in changes)
        lacks, is_open = lacks_of(tabs, runs, changed.run), bool(_progress(runs, changed.run))
        page = page_for(pages, changed.path)
        links = tab_links(tabs, page, changed, lacks, is_open=is_open)
        return changed.search, links, None if is_drawn else no_update, None


def _register_notice(app: Dash, runs: RunStore) -> None:
    @app.callback(
        Output(ids.NOTICE, "children"),
        Input(ids.CLOCK, "n_intervals"),
        Input(ids.DRAWN, "data"),
        State(ids.LOCATION, "pathname"),
        State(ids.LOCATION, "search"),
    )
    def notify(_ticks: object, drawn: object, pathname: object, search: object) -> object:
        if not isinstance(drawn, dict) or drawn.get("run") not in runs.ids:
            return None
        if drawn.get("changed") == str(_changed_ns(runs, drawn["run"])):
            return None
        if drawn.get("progress") or text_or_none(pathname) == LIVE_PATH:
            return None
        view = resolved(runs, text_or_none(pathname), text_or_none(search))
        return dmc.Alert(
            dmc.Anchor("Reload the run", href=view.href, refresh=True),
            title="This run has changed since the page was drawn.",
            color="blue",
            variant="light",
            mb="sm",
        )


def _progress(runs: RunStore, run_id: str | None) -> str:
    """How many passes of a run have ended while it is measured; empty of any other."""
    try:
        entry = None if run_id is None else runs.entry(run_id)
    except HvdprofError:
        # Deleted: the page itself reports it.
        return ""
    if entry is None or not entry.is_open:
        return ""
    return f"{entry.num_ended} of {entry.num_passes}"


def _changed_ns(runs: RunStore, run_id: str | None) -> int | None:
    if run_id is None:
        return None
    try:
        return runs.changed_ns(run_id)
    except HvdprofError:
        # Deleted: the page itself reports it.
        return None
