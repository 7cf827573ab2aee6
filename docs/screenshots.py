"""The pictures of the documentation: starts the dashboard on a run and photographs its pages.

    .venv/bin/python docs/screenshots.py runs/20261120-224841-quick [NAME...] --with RUN

Without names it takes all, that of *Compare* where a second run is given. Needs Chromium and the
tools of development (``make setup``). What is in the pictures depends on the run; what is looked at
is the list ``VIEWS``. A forecast is stored beside the run first.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parent / "images"
MOST_BYTES = 170_000

FORECAST = (
    *("--model", "resnet18", "--np", "4,8,16,32,64"),
    *("--hosts-of", "4", "--link", "25Gbit,15us"),
)
"""What the page of forecasts shows."""

UNFOLD = """one => {
    for (let fold = one.closest("details"); fold; fold = fold.parentElement.closest("details")) {
        fold.open = true;
    }
    (one.closest(".mantine-Paper-root") ?? one).scrollIntoView();
}"""

_SIZE = {"width": 1280, "height": 860}
_SETTLED_MS = 1_500


@dataclass(frozen=True, slots=True)
class View:
    """A picture: its name, the page's path and query, and what has to be there before it is taken.

    ``first`` is a selector of what the picture begins with, which is unfolded; the top of the page
    where empty.
    """

    name: str
    path: str
    drawn: str
    query: str = ""
    first: str = ""


COMPARE = "compare"

VIEWS = (
    View("dashboard", "/", ".waterfall .barlayer path"),
    View("waterfall", "/", ".waterfall-all", first=".waterfall-all"),
    View("timeline", "/timeline", ".timeline[data-exact=true]", query="&step=8"),
    View("ranks", "/ranks", ".lateness .heatmaplayer image"),
    View("communication", "/communication", ".transfer-by-size .scatterlayer .trace"),
    View(COMPARE, "/compare", ".difference .barlayer path", query="&with="),
    View("forecast", "/forecast", ".forecast-curve .scatterlayer .trace", first=".forecast-curve"),
)


def main() -> None:
    """Write ``docs/images/NAME.png`` of every view."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("names", nargs="*", help="pictures to take; all by default")
    parser.add_argument("--with", dest="other", type=Path, help="the second run of Compare")
    options = parser.parse_args()
    known = {view.name: view for view in VIEWS}
    if unknown := set(options.names) - set(known):
        parser.error(f"no picture is named {', '.join(unknown)}; there are {', '.join(known)}")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        parser.error("no chromium on this machine (Debian: apt-get install chromium)")
    predict = [sys.executable, "-m", "hvdprof", "predict", str(options.run), *FORECAST]
    subprocess.run(predict, check=True, stdout=subprocess.DEVNULL)
    others = [options.other] if options.other else []
    names = options.names or [name for name in known if name != COMPARE or others]
    with dashboard(options.run, *others) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        for view in (known[name] for name in names):
            if view.name == COMPARE:
                view = replace(view, query=view.query + others[0].resolve().name)
            path = photograph(browser, address, options.run.resolve().name, view)
            sys.stdout.write(f"{path}: {path.stat().st_size / 1000:.0f} kB\n")
        browser.close()


@contextmanager
def dashboard(*runs: Path) -> Iterator[str]:
    """The address of a dashboard over runs, which ends with the block."""
    command = [sys.executable, "-m", "hvdprof", "dashboard", *map(str, runs), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http")).rstrip("/")
        finally:
            server.terminate()


def photograph(browser: Browser, address: str, run: str, view: View) -> Path:
    """Write one picture and return its path.

    Raises:
        ValueError: It is larger than the documentation should carry.
    """
    page = browser.new_page(viewport=_SIZE, color_scheme="light")
    # The printed address carries the token, which the browser exchanges for a cookie.
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.goto(urljoin(address, f"{view.path}?run={run}{view.query}"))
    page.locator(view.drawn).first.wait_for(state="attached", timeout=60_000)
    page.wait_for_load_state("networkidle")
    if view.first:
        page.locator(view.first).first.evaluate(UNFOLD)
    page.wait_for_timeout(_SETTLED_MS)
    path = IMAGES / f"{view.name}.png"
    path.write_bytes(page.screenshot())
    page.close()
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, more than {MOST_BYTES}")
    return path


if __name__ == "__main__":
    main()
