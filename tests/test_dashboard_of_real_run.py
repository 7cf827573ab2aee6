"""The dashboard on a recorded run of real ranks, page by page in a real browser.

`tests/test_bench_end_to_end.py` proves that `hvdprof bench` records such a run.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest

from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.run_store import RunStore
from tests.builders import late_script
from tests.builders.browser import (
    CLOUD_BUTTON,
    SERVERS,
    WatchedPage,
    serious_violations,
    show,
    turn,
    wait_until,
    watched_page,
)
from tests.builders.recorded_runs import unpacked
from tests.builders.running_command import hvdprof, pids_in_step, started, wait_for
from tests.builders.served_dashboard import served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

EMPTY = ("Live", "NCCL", "History")
"""A run without NCCL that no watcher has followed, and no second run beside it."""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = unpacked("bench-sweep", tmp_path_factory.mktemp("real"))
    predicted = hvdprof("predict", str(folder), "--np", "4,8", "--link", "25Gbit,15us")
    assert predicted.returncode == 0, predicted.stderr
    return folder


FACTS = """() => [...document.querySelectorAll("[data-fact]")]
    .map(one => [one.dataset.fact, one.textContent])"""
RECORDED = (
    *("bench-sweep", "ddp-sweep", "horovod-sweep", "horovod-slow-data"),
    "ddp-light-slow-update",
)


@pytest.mark.parametrize("name", RECORDED)
def test_a_number_is_the_same_on_every_page(tmp_path: Path, name: str) -> None:
    folder = unpacked(name, tmp_path)
    # One run alone has nothing to be compared with.
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    with served(RunStore([folder, again])) as address, watched_page(address) as watched:
        shown: dict[str, set[str]] = {}
        pages: dict[str, int] = {}
        for one in PAGES:
            turn(watched, f"{address}{one.PATH}?run={folder.name}&with=again")
            found = watched.page.evaluate(FACTS)
            for fact, text in found:
                shown.setdefault(fact, set()).add(text)
            for fact in {fact for fact, _ in found}:
                pages[fact] = pages.get(fact, 0) + 1
        assert {fact: texts for fact, texts in shown.items() if len(texts) > 1} == {}
        # A number that one page alone shows proves nothing.
        for fact in ("throughput", "step-time-median", "steady-steps"):
            assert pages[fact] > 1, fact
        # The strip and Ranks open at one launch.
        of_launch = {fact: on for fact, on in pages.items() if fact.startswith("launch-")}
        assert len(of_launch) == 3
        assert set(of_launch.values()) == {2}


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_every_page_shows_what_was_measured(run_folder: Path, width: int, dark: bool) -> None:
    runs = RunStore([run_folder])
    with served(runs) as address, watched_page(address, width=width, dark=dark) as watched:
        page = watched.page
        for one in PAGES:
            turn(watched, f"{address}{one.PATH}?run={run_folder.name}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, one.TITLE
            is_empty = page.locator(".empty").count() > 0 and page.locator(".figure").count() == 0
            assert is_empty == (one.TITLE in EMPTY), one.TITLE
            assert serious_violations(page) == [], one.TITLE
            assert watched.complaints == [], one.TITLE
            # No figure offers to upload itself, names of tensors and hosts included.
            assert page.locator(CLOUD_BUTTON).count() == 0, one.TITLE
            assert page.evaluate(SERVERS) in ([], [""]), one.TITLE
        assert watched.foreign_requests == []


OWN = ("--np", "2", "--launcher", "torchrun", "--no-trace", "--no-net")
VERDICT = """(() => document.querySelector('[col-id=verdict].ag-cell')?.textContent)()"""


@pytest.mark.horovod
@pytest.mark.parametrize(
    ("victim", "status", "reason"),
    [
        ("rank", "failed", "Failed at np=2: rank 1 was ended by SIGKILL"),
        ("hvdprof", "interrupted", "Failed at np=2: hvdprof was killed."),
    ],
)
def test_what_is_killed_while_it_is_shown_says_so_on_every_page(
    tmp_path: Path, victim: str, status: str, reason: str
) -> None:
    folder = tmp_path / "runs" / "run"
    script = ("--", "python", str(late_script.__file__), "300")
    with (
        started("run", "-q", "-o", str(folder), *OWN, *script) as command,
        served(RunStore([], watched=[folder.parent])) as address,
        watched_page(address) as live,
    ):
        pids = wait_for(lambda: pids_in_step(folder, 40))
        context = live.page.context
        diagnosis, runs = (WatchedPage(context.new_page(), address) for _ in range(2))
        show(diagnosis, f"{address}/?run=run")
        show(runs, f"{address}/runs")
        show(live, f"{address}/live?run=run")
        live.page.get_by_text("This page follows the run.").wait_for()
        diagnosis.page.get_by_text("Being measured").wait_for()
        if victim == "rank":
            os.kill(pids[1], signal.SIGKILL)
        else:
            command.send_signal(signal.SIGKILL)
        for watched, text in ((live, f"has ended: {status}"), (diagnosis, reason), (runs, reason)):
            watched.page.get_by_text(text).first.wait_for(timeout=30_000)
        # What the open page looks at is no change of the run, and takes no verdict away.
        said = wait_until(runs.page, VERDICT)
        for _ in range(24):
            runs.page.wait_for_timeout(500)
            assert runs.page.evaluate(VERDICT) == said
        assert diagnosis.page.get_by_text("This run has changed").count() == 0
        for watched in (live, diagnosis, runs):
            assert watched.complaints == []
