"""A headless Chromium that notes everything a clean page would not do.

One for all tests of a worker that follow each other. Its pages share the cache of files and of
compiled scripts, and nothing else.
"""

import atexit
import functools
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# A machine that others use too may take its time.
_PATIENCE_MS = 120_000

CLOUD_BUTTON = ".modebar-btn[data-title*='hare'], .modebar-btn[data-title*='loud']"
"""The button of plotly.js that uploads a figure."""

SERVERS = """() => [...new Set(
    [...document.querySelectorAll('.js-plotly-plot')].map(one => one._context.plotlyServerURL))]"""
"""Where figures would be uploaded to."""


IS_DARK = "document.documentElement.dataset.mantineColorScheme === 'dark'"
"""Whether a page of the dashboard is drawn in dark colours."""


class WatchedPage:
    """A page, what its console complained about, and which other hosts it asked."""

    def __init__(self, page, origin):
        self.page = page
        self.origin = origin
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        self.unanswered: set = set()
        self._own = (origin, "data:", "blob:")
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)
        for ended in ("requestfinished", "requestfailed"):
            page.on(ended, lambda request: self.unanswered.discard(request))

    def resize(self, width: int, *, dark: bool) -> None:
        """Make the window one of another width and colour scheme, as a new one has.

        Without motion: a skeleton that pulses while a page is loaded is drawn anew in each frame.
        """
        height = self.page.viewport_size["height"]
        self.page.set_viewport_size({"width": width, "height": height})
        scheme = "dark" if dark else "light"
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request):
        self.unanswered.add(request)
        if not request.url.startswith(self._own):
            self.foreign_requests.append(request.url)


_DRAWN = """() => [...document.querySelectorAll('.data-table, .dash-graph')].every(one =>
    !one.checkVisibility() || one.querySelector('.ag-header-cell, .main-svg')) &&
    [...document.querySelectorAll('#timeline')].every(one => one.dataset.exact === 'true')"""


def show(watched: WatchedPage, address: str) -> None:
    """Go to an address and wait until the page is drawn."""
    watched.page.goto(address)
    watched.page.wait_for_selector("main > *")
    watched.page.wait_for_load_state("networkidle")
    wait_until_drawn(watched.page)


_TURN = """href => {
    document.title = '';
    history.pushState(null, '', href);
    window.dispatchEvent(new CustomEvent('_dashprivate_pushstate'));
}"""
_TURNED = """document.title !== '' && Boolean(document.querySelector('main > *'))"""


def turn(watched: WatchedPage, address: str) -> None:
    """Go to another view of the open dashboard as its links do, and wait until it is drawn.

    Its scripts run already: about half the work of ``show``, which a page begins with. The open
    view must be drawn: where the dashboard returns to what it drew last, it draws nothing.
    """
    if not watched.page.url.startswith(watched.origin):
        show(watched, address)
        return
    watched.page.evaluate(_TURN, address)
    # The dashboard names the page once its content is there.
    wait_until(watched.page, _TURNED)
    calm, deadline = 0, time.monotonic() + _PATIENCE_MS / 1e3
    while calm < 5:
        assert time.monotonic() < deadline, [one.url for one in watched.unanswered]
        watched.page.wait_for_timeout(100)
        calm = 0 if watched.unanswered else calm + 1
    wait_until_drawn(watched.page)


def wait_until_drawn(page) -> None:
    """Wait for grids, figures and the timeline: what draws them may come from the cache, unseen."""
    wait_until(page, _DRAWN)


def wait_until(page, expression: str, arg: object = None):
    """The value of a JavaScript expression or function, once it is true.

    Playwright's ``wait_for_function`` evaluates a text inside of the page, which the dashboard's
    content security policy forbids.
    """
    deadline = time.monotonic() + _PATIENCE_MS / 1e3
    while not (found := page.evaluate(expression, arg)):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)
    return found


_SERIOUS = {
    "resultTypes": ["violations"],
    # A fifth of axe's work, and never serious: axe-core rates them moderate or minor.
    "rules": {
        name: {"enabled": False} for name in ("region", "landmark-unique", "aria-allowed-role")
    },
}


def serious_violations(page) -> list[str]:
    """What axe-core finds on a page that keeps a user from reading it: rule, and where."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options=_SERIOUS).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


_CONTEXT: list = []
"""The context of all pages in the running Chromium, if there is one."""
_STARTED = ExitStack()
"""What ends it and its driver."""


def close_browser() -> None:
    """End the Chromium, if one runs: while its driver does, ``asyncio`` runs nothing else."""
    _CONTEXT.clear()
    _STARTED.close()


@functools.cache
def _profile() -> str:
    """The folder in which each Chromium of this worker finds the scripts of those before it."""
    folder = tempfile.mkdtemp(prefix="chromium-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _context():
    """The context of this worker's pages, in a Chromium started anew where it has crashed."""
    if _CONTEXT:
        return _CONTEXT[0]
    close_browser()
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    playwright = _STARTED.enter_context(sync_api.sync_playwright())
    context = playwright.chromium.launch_persistent_context(
        _profile(),
        executable_path=executable,
        args=ARGUMENTS,
        headless=True,
        timeout=_PATIENCE_MS,
        accept_downloads=True,
    )
    context.on("close", lambda _: _CONTEXT.clear())
    _STARTED.callback(context.close)
    _CONTEXT.append(context)
    return context


@contextmanager
def watched_page(
    origin: str, *, width: int = 1280, height: int = 900, dark: bool = False
) -> Iterator[WatchedPage]:
    """A new page of that size in the system's Chromium; the test is skipped without one.

    What a test opens beside it in the browser is closed with it, and what pages of that origin
    have stored is deleted.
    """
    context = _context()
    before = context.pages
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    watched = WatchedPage(page, origin)
    page.set_viewport_size({"width": width, "height": height})
    watched.resize(width, dark=dark)
    try:
        yield watched
    finally:
        # A Chromium that has crashed holds nothing any more.
        if context in _CONTEXT:
            _forget(page, origin)
            for opened in context.pages:
                if opened not in before:
                    opened.close()


def _forget(page, origin: str) -> None:
    """Delete what pages of an origin stored and were allowed to do, but not the cached files."""
    page.context.clear_cookies()
    page.context.clear_permissions()
    stored = "local_storage,indexeddb,service_workers,cache_storage"
    page.context.new_cdp_session(page).send(
        "Storage.clearDataForOrigin", {"origin": origin, "storageTypes": stored}
    )
