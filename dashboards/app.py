"""The Dash app: its pages, the choice of a run, and the server that shows them."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlencode

import dash_mantine_components as dmc
from dash import Dash, Input, Output, ctx, dcc, html
from waitress.server import create_server  # type: ignore[import-untyped]

from dashboards import ids
from dashboards.pages import overview
from dashboards.run_store import RunStore
from hvdprof.errors import EnvironmentNotReadyError

# A browser asks over six connections at once; a waiting one would be logged as a warning.
_NUM_THREADS = 8

PAGES: tuple[ModuleType, ...] = (overview,)


def create_app(runs: RunStore) -> Dash:
    """A Dash app of its own over the given runs; nothing is read before a page asks for it."""
    app = Dash(
        __name__,
        title="hvdprof",
        update_title="",
        suppress_callback_exceptions=True,
        serve_locally=True,
    )
    app.layout = _shell(runs)
    _register_navigation(app, runs)
    for page in PAGES:
        page.register(app, runs)
    return app


def serve(
    folders: Sequence[Path], *, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Show runs in the browser until the process is interrupted.

    Args:
        folders: Run directories.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        on_ready: Called with the address of the dashboard once it listens.

    Raises:
        EnvironmentNotReadyError: The address or port cannot be used.
    """
    app = create_app(RunStore(folders))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # waitress leaves its own socket open where the port is taken.
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise EnvironmentNotReadyError(
            f"Could not listen on {host}:{port}: {error.strerror or error}.",
            hint="Leave --port away to take a free one.",
        ) from error
    with listening:
        server = create_server(app.server, sockets=[listening], threads=_NUM_THREADS)
        on_ready(f"http://{host}:{listening.getsockname()[1]}/")
        server.run()


def page_for(pathname: str | None) -> Any:
    """The layout of the page at a path; of the first page for a path that no page has."""
    return next((page for page in PAGES if pathname == page.PATH), PAGES[0]).layout()


def chosen_run(
    run_ids: Sequence[str], search: str | None, selected: str | None, *, by_address: bool
) -> str | None:
    """The run to show: that of the address when the address changed, else the selected one.

    Args:
        run_ids: Ids of all runs.
        search: Query of the address, such as ``?run=20261120-224841-quick``.
        selected: Id in the list of runs.
        by_address: Whether the address is what changed.
    """
    asked = parse_qs((search or "").removeprefix("?")).get("run", [None])[0]
    wanted = asked if by_address and asked else selected
    return wanted if wanted in run_ids else next(iter(run_ids), None)


def _register_navigation(app: Dash, runs: RunStore) -> None:
    @app.callback(Output(ids.PAGE, "children"), Input(ids.LOCATION, "pathname"))
    def show_page(pathname: str | None) -> Any:
        return page_for(pathname)

    @app.callback(
        Output(ids.RUN, "value"),
        Output(ids.LOCATION, "search"),
        Input(ids.LOCATION, "search"),
        Input(ids.RUN, "value"),
    )
    def choose_run(search: str | None, selected: str | None) -> tuple[str | None, str]:
        by_address = ctx.triggered_id != ids.RUN
        run_id = chosen_run(runs.ids, search, selected, by_address=by_address)
        return run_id, f"?{urlencode({'run': run_id})}" if run_id else ""


def _shell(runs: RunStore) -> dmc.MantineProvider:
    links = [dmc.Anchor(page.TITLE, href=page.PATH, size="sm") for page in PAGES]
    header = dmc.Group(
        [
            dmc.Text("hvdprof", fw=700, size="lg"),
            *(links if len(PAGES) > 1 else []),
            dmc.Select(
                id=ids.RUN,
                data=runs.ids,
                value=next(iter(runs.ids), None),
                allowDeselect=False,
                searchable=True,
                ml="auto",
                w=300,
                **{"aria-label": "Run"},
            ),
        ],
        py="sm",
        justify="space-between",
    )
    return dmc.MantineProvider(
        dmc.Container(
            [dcc.Location(id=ids.LOCATION), header, html.Main(id=ids.PAGE)],
            size="lg",
            pb="xl",
        ),
        theme={"fontFamily": "system-ui, sans-serif", "primaryColor": "blue"},
        forceColorScheme="light",
    )
