"""What the first page costs: overview and timeline, by a dashboard that has just started.

    python -m benchmarks.first_pages timeline.json runs/20261120-224841-quick

Each run or file is shown twice, by a process of its own and in a Chromium without a cache of its
own: cold, where no cache of hvdprof is there, and warm, where the first process has left one. Times
are those of the clock, from the address to the painted page; that of the server's processor is
without its start. The weight of a page is that of all answers as they were sent, packed; the second
page finds scripts and styles in the browser's cache. ``benchmarks.many_ranks_run`` makes a run of
many ranks.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.dashboard_process import Served, chromium, fresh_copy, served

_PAGES: tuple[tuple[str, str, str], ...] = (
    ("overview", "/", "document.querySelector('.tile, .verdict, .empty') !== null"),
    ("timeline", "/timeline", "document.getElementById('timeline')?.dataset.exact === 'true'"),
)
"""Name, path, and what is true of a page once it is painted."""


def main() -> None:
    """Print seconds to each page, processor time and memory of the server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+")
    for path in parser.parse_args().paths:
        with fresh_copy(path) as copy, tempfile.TemporaryDirectory() as cache:
            for name in ("cold", "warm"):
                print(f"{path.name}, {name}: {'; '.join(_looked_at(copy, Path(cache)))}")


def _looked_at(path: Path, cache: Path) -> list[str]:
    with served(path, cache) as server, chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        texts = []
        for name, where, painted in _PAGES:
            page = context.new_page()
            texts.append(f"{name} {_first_look(page, server, where, painted)}")
            page.close()
        texts.append(f"peak {server.peak_gb:.2f} GB, {server.now_gb:.2f} GB of its own at the end")
    return texts


def _first_look(page: object, server: Served, where: str, painted: str) -> str:
    from playwright.sync_api import Page, Request

    assert isinstance(page, Page)
    answered: list[Request] = []
    page.on("requestfinished", answered.append)
    began, used = time.monotonic(), server.cpu_s
    page.goto(f"{server.address}{where}", wait_until="commit")
    while not page.evaluate(painted):
        page.wait_for_timeout(10)
    taken = time.monotonic() - began
    # What the page asks for after it is painted counts too.
    page.wait_for_load_state("networkidle")
    num_bytes = sum(one.sizes()["responseBodySize"] for one in [*answered])
    weight = f"{num_bytes / 1000:,.0f} kB in {len(answered)} answers"
    return f"{taken:.2f} s ({server.cpu_s - used:.2f} s of the server), {weight}"


if __name__ == "__main__":
    main()
