"""What the first page costs: diagnosis and timeline, by a dashboard that has just started.

    python -m benchmarks.first_pages --repeats 5 timeline.json runs/20261120-224841-quick

Each run or file is shown by a process of its own, in a Chromium with an empty cache: cold, where no
cache of hvdprof is there, and warm, where an earlier process has left one. The page is asked for as
soon as the server prints its address. Cold and warm take turns; medians, with the load of the
machine. ``skeleton`` and ``verdict`` are milliseconds from navigation to what Chromium has in the
page; the processor time is the server's without its start, the page's (its process in Chromium),
and of both until no request is under way. The weight of a page is that of all answers as they were
sent, packed; the second page, and the first once more, find scripts and styles in the browser's
cache. ``--assets`` names the largest answers. ``benchmarks.many_ranks_run`` makes a run of many
ranks.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.dashboard_process import Served, chromium, fresh_copy, served

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Request

_DIAGNOSIS = "document.querySelector('main :is(.tile, .verdict, .empty)') !== null"
_PAGES: tuple[tuple[str, str, str], ...] = (
    ("diagnosis", "/", _DIAGNOSIS),
    ("timeline", "/timeline", "document.getElementById('timeline')?.dataset.exact === 'true'"),
    ("diagnosis again", "/", _DIAGNOSIS),
)
"""Name, path, and what is true of a page once it is painted."""

# The skeleton stands in the page that the server sends, and again until the page is drawn.
_WATCH = """
window.seen = {};
new MutationObserver(() => {
    if (!window.seen.skeleton && document.querySelector('._dash-loading, .skeleton')) {
        window.seen.skeleton = performance.now();
    }
    if (!window.seen.painted && (PAINTED)) { window.seen.painted = performance.now(); }
}).observe(document, {childList: true, subtree: true, attributes: true});
"""
_LARGEST = 8
_IDLE_S = 2.0

Looks = defaultdict[tuple[str, str], list[float]]
"""Measured values of a page, by page and what was measured."""


def main() -> None:
    """Print the medians of each run, cold and warm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--assets", action="store_true", help="name the largest answers")
    arguments = parser.parse_args()
    for path in arguments.paths:
        found: dict[str, Looks] = {"cold": defaultdict(list), "warm": defaultdict(list)}
        for _ in range(arguments.repeats):
            with fresh_copy(path) as copy, tempfile.TemporaryDirectory() as cache:
                for looks in found.values():
                    _look(copy, Path(cache), looks, arguments.assets)
        load = ", ".join(f"{one:.0f}" for one in os.getloadavg())
        print(f"{path.name}, median of {arguments.repeats}, load {load}")
        for kind, looks in found.items():
            for page, _path, _painted in _PAGES:
                middle = {what: statistics.median(looks[page, what]) for what in _FORMATS}
                texts = [text.format(middle[what]) for what, text in _FORMATS.items()]
                print(f"  {kind}, {page}: {', '.join(texts)}")
            print(f"  {kind}, server: {statistics.median(looks['server', 'peak']):.2f} GB peak")


_FORMATS = {
    "skeleton": "skeleton {:.0f} ms",
    "painted": "painted {:.0f} ms",
    "server": "server {:.2f} CPU s",
    "browser": "page {:.2f} CPU s",
    "kilobytes": "{:,.0f} kB",
    "answers": "{:.0f} answers",
}


def _look(path: Path, cache: Path, looks: Looks, with_assets: bool) -> None:
    """Open each page once, in a server and a browser of their own."""
    with served(path, cache) as server, chromium() as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        for name, where, painted in _PAGES:
            page = context.new_page()
            page.add_init_script(_WATCH.replace("PAINTED", painted))
            for what, value in _first_look(page, context, server, where, with_assets).items():
                looks[name, what].append(value)
            page.close()
        looks["server", "peak"].append(server.peak_gb)


def _first_look(
    page: "Page", context: "BrowserContext", server: Served, where: str, with_assets: bool
) -> dict[str, float]:
    answered: list[Request] = []
    asked: list[float] = []
    page.on("request", lambda _: asked.append(time.monotonic()))
    page.on("requestfinished", lambda request: answered.append(request))
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    used = server.cpu_s
    page.goto(f"{server.address}{where}", wait_until="commit")
    deadline = time.monotonic() + 120
    while not (seen := page.evaluate("window.seen")).get("painted"):
        if time.monotonic() > deadline:
            raise TimeoutError(where)
        page.wait_for_timeout(20)
    # What the page asks for after it is painted counts too, as the scripts of its figures.
    while len(answered) < len(asked) or time.monotonic() - asked[-1] < _IDLE_S:
        if time.monotonic() > deadline:
            break
        page.wait_for_timeout(100)
    metrics = {
        one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
    }
    sizes = [(one.sizes()["responseBodySize"], one.url) for one in [*answered]]
    if with_assets:
        for size, url in sorted(sizes, reverse=True)[:_LARGEST]:
            print(f"    {where}: {size / 1000:,.0f} kB {url.removeprefix(server.address)[:90]}")
    return {
        "skeleton": seen.get("skeleton", seen["painted"]),
        "painted": seen["painted"],
        "server": server.cpu_s - used,
        "browser": metrics["TaskDuration"],
        "kilobytes": sum(size for size, _url in sizes) / 1000,
        "answers": len(answered),
    }


if __name__ == "__main__":
    main()
