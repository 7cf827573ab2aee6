"""The Dash app: its pages, and its server."""

import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from dash import Dash
from waitress.server import create_server

from hvdprof.dashboards import guard, shell
from hvdprof.dashboards.components import data_table, figure_card, text_table
from hvdprof.dashboards.pages import (
    breakdown,
    communication,
    compare,
    glossary,
    nccl,
    overview,
    stalls,
    timeline,
)
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.shell import Page
from hvdprof.errors import EnvironmentNotReadyError

# A browser opens six connections at once.
_NUM_THREADS = 8
# waitress warns of every request that waits for a thread, which a user cannot act on.
_QUEUE_LOGGER = "waitress.queue"

# Dash's default page with a language, which screen readers need.
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
    for page in (overview, timeline, stalls, communication, breakdown, nccl, compare, glossary)
)
"""The site map, in the order of the navigation; ``dashboards/pages`` defines a page."""


def create_app(runs: RunStore, *, password: str | None = None) -> Dash:
    """A Dash app over the given runs; runs are read at the first request of a page.

    Args:
        runs: The runs on offer.
        password: Required password; ``None`` for no password.
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
        paths: Run directories and standalone files.
        watched: Folders whose runs are offered too, including new ones.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        on_ready: Called with the address of the dashboard once it listens.
        password: Required password; ``None`` for no password.

    Raises:
        EnvironmentNotReadyError: The address or port cannot be used.
    """
    app = create_app(RunStore(paths, watched=watched), password=password)
    logging.getLogger(_QUEUE_LOGGER).setLevel(logging.ERROR)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # waitress does not close its own socket when the port is taken.
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise EnvironmentNotReadyError(
            f"Could not listen on {host}:{port}: {error.strerror or error}.",
            hint="Omit --port to use a free port.",
        ) from error
    with listening:
        server = create_server(app.server, sockets=[listening], threads=_NUM_THREADS)
        on_ready(f"http://{host}:{listening.getsockname()[1]}/")
        server.run()
