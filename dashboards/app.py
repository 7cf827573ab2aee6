"""The Dash app: its pages, and its server."""

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from dash import Dash

from hvdprof.dashboards import navigation, shell, timeline_answers
from hvdprof.dashboards.access import Access, address_with_token, guard
from hvdprof.dashboards.bounded_server import bounded_server, compress
from hvdprof.dashboards.pages import (
    Page,
    Tab,
    communication,
    compare,
    diagnosis,
    forecast,
    history,
    live,
    nccl,
    ranks,
    timeline,
)
from hvdprof.dashboards.pages import runs as runs_page
from hvdprof.dashboards.run_store import RunStore, read_and_analyze
from hvdprof.dashboards.view import View
from hvdprof.errors import EnvironmentNotReadyError

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


def _pages(*modules: object) -> tuple[Page, ...]:
    return tuple(cast(Page, module) for module in modules)


TABS: tuple[Tab, ...] = (
    Tab("Diagnosis", _pages(diagnosis, forecast), key="1"),
    Tab("Timeline", _pages(timeline), key="2"),
    Tab("Ranks", _pages(ranks), key="3"),
    Tab("Communication", _pages(communication, nccl), key="4"),
    Tab("Live", _pages(live), is_seldom=True),
    Tab("All runs", _pages(runs_page, history), key="5", is_apart=True),
    Tab("Compare", _pages(compare), key="6", is_apart=True),
)
"""The navigation, in its order; ``dashboards/pages`` defines a page and a tab."""

PAGES: tuple[Page, ...] = tuple(page for tab in TABS for page in tab.pages)
"""The site map."""


def create_app(runs: RunStore, *, access: Access | None = None) -> Dash:
    """A Dash app over the given runs; runs are read at the first request of a page.

    Args:
        runs: The runs on offer.
        access: Who may see it; ``None`` for everyone who knows a name of this machine.
    """
    app = Dash(
        __name__,
        title="hvdprof",
        update_title="",
        suppress_callback_exceptions=True,
        serve_locally=True,
        index_string=_INDEX,
    )
    app.layout = navigation.frame()
    shell.register(app, runs, TABS)
    navigation.register(app)
    pages = [page for tab in TABS for page in tab.pages]
    for page in pages:
        page.register(app, runs)
    timeline_answers.register(app, runs)
    # What may not be seen is not parsed either.
    (access or Access(with_token=False)).restrict(app)
    guard(app, [*(page.PATH for page in pages), *shell.OLD_PATHS])
    compress(app)
    return app


def serve(
    paths: Sequence[Path],
    *,
    watched: Sequence[Path] = (),
    address: tuple[str, int],
    on_ready: Callable[[str], None],
    access: Access,
    price: float | None = None,
) -> None:
    """Show runs in the browser until the process is interrupted.

    Args:
        paths: Run directories and standalone files.
        watched: Folders whose runs are offered too, including new ones.
        address: Where to listen: a host, and a port, of which 0 takes a free one.
        on_ready: Called with the address of the dashboard, token included, once it listens.
        access: Who may see it.
        price: Of a GPU per hour; that of each run when None.

    Raises:
        EnvironmentNotReadyError: The address or port cannot be used.
    """
    runs = RunStore(paths, watched=watched, read=partial(read_and_analyze, price=price))
    app = create_app(runs, access=access)
    host, port = address
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
        server = bounded_server(app.server, listening)
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening.getsockname()[1]}/"
        on_ready(address_with_token(url, access.token))
        # The first page that is opened waits less.
        threading.Thread(target=_draw_first, args=(runs,), daemon=True).start()
        server.run()


def _draw_first(runs: RunStore) -> None:
    for run_id in runs.ids[:1]:
        shell.content(diagnosis, runs, View(diagnosis.PATH, {"run": run_id}))
