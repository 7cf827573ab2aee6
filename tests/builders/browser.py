"""A headless Chromium that notes everything a clean page would not do."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

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


class WatchedPage:
    """A page, what its console complained about, and which other hosts it asked."""

    def __init__(self, page, origin):
        self.page = page
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        self._own = (origin, "data:", "blob:")
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request):
        if not request.url.startswith(self._own):
            self.foreign_requests.append(request.url)


@contextmanager
def watched_page(origin: str, *, width: int = 1280, height: int = 900) -> Iterator[WatchedPage]:
    """A new page of that size in the system's Chromium; the test is skipped without one."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS, headless=True
        )
        page = browser.new_page(viewport={"width": width, "height": height})
        yield WatchedPage(page, origin)
        browser.close()
