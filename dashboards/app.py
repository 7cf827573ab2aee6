"""The Dash app: its pages, and the server that shows them."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from dash import Dash
from waitress.server import create_server  # type: ignore[import-untyped]

from hvdprof.dashboards import guard, shell
from hvdprof.dashboards.components import data_table, figure_card, text_table
from hvdprof.dashboards.pages import (
    breakdown,
    communication,
    compare,
    nccl,
    overview,
    stalls,
    timeline,
)
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.shell import Page
from hvdprof.errors import EnvironmentNotReadyError

# A browser asks over six connections at once; a waiting one would be logged as a warning.
_NUM_THREADS = 8

# Dash's own page, and the language that a screen reader needs.
_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>
            {%config%}
            {%scripts%}
            {%renderer%}
        </footer>
    </body>
</html>"""

PAGES: tuple[Page, ...] = tuple(
    cast(Page, page)
    for page in (overview, timeline, stalls, communication, breakdown, nccl, compare)
)
"""The site map, in the order of the navigation; ``dashboards/pages`` says what a page is."""


def create_app(runs: RunStore, *, password: str | None = None) -> Dash:
    """A Dash app of its own over the given runs; nothing is read before a page asks for it.

    Args:
        runs: The runs that can be looked at.
        password: What a browser has to send; ``None`` asks for none.
    """
    app = Dash(
        __name__,
        title="hvdprof",
        update_title="",
        suppress_callback_exceptions=True,
        serve_locally=True,
        index_string=_INDEX,
    )
    app.layout = shell.frame()
    shell.register(app, runs, PAGES)
    figure_card.register(app)
    data_table.register(app)
    text_table.register(app)
    for page in PAGES:
        page.register(app, runs)
    guard.guard(app, password)
    return app


def serve(
    paths: Sequence[Path],
    *,
    watched: Sequence[Path] = (),
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    password: str | None = None,
) -> None:
    """Show runs in the browser until the process is interrupted.

    Args:
        paths: Run directories and lone files.
        watched: Folders whose runs are offered too, new ones as they appear.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        on_ready: Called with the address of the dashboard once it listens.
        password: What a browser has to send; ``None`` asks for none.

    Raises:
        EnvironmentNotReadyError: The address or port cannot be used.
    """
    app = create_app(RunStore(paths, watched=watched), password=password)
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
