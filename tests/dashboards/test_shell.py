"""The navigation: tabs, what would fill the empty ones, keys, and old addresses."""

import time

import pytest

from hvdprof.dashboards import navigation
from hvdprof.dashboards.app import PAGES, TABS
from hvdprof.dashboards.navigation import lacks_of
from hvdprof.dashboards.run_store import RunStore, read_and_analyze
from hvdprof.dashboards.shell import OLD_PATHS, page_for
from tests.builders.browser import serious_violations, show, turn, wait_until, watched_page
from tests.builders.served_dashboard import (
    empty_run,
    measured_run,
    nccl_file,
    served,
    standalone_timeline,
)

TITLES = (
    "() => [...document.querySelectorAll('.shell-link')].map(one => one.firstChild.textContent)"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "logs").mkdir()
    return RunStore(
        [
            measured_run(folder / "measured"),
            empty_run(folder / "begun"),
            standalone_timeline(folder),
            nccl_file(folder / "logs"),
        ]
    )


def test_every_old_address_leads_to_a_page():
    assert page_for(PAGES, "/glossary").PATH == "/"
    assert all(page_for(PAGES, path) is not None for path in OLD_PATHS)


def test_keys_are_those_of_one_tab_each():
    keys = [tab.key for tab in TABS if tab.key]
    assert keys == ["1", "2", "3", "4", "5", "6"]


def test_nothing_is_said_to_lack_before_the_run_is_read(runs):
    fresh = RunStore([runs.path("measured")])
    assert lacks_of(TABS, fresh, "measured") == {}
    assert lacks_of(TABS, fresh, None) == {}
    fresh.finished("measured")
    assert "/nccl" in lacks_of(TABS, fresh, "measured")


@pytest.mark.parametrize(
    ("run_id", "empty"),
    [
        ("measured", {"/nccl", "/live", "/forecast"}),
        ("timeline.json", {"/nccl", "/live", "/forecast", "/compare"}),
        (
            "nccl.log",
            {"/timeline", "/ranks", "/communication"} | {"/live", "/forecast", "/compare"},
        ),
    ],
)
def test_a_page_lacks_what_its_run_does_not_hold(runs, run_id, empty):
    runs.finished(run_id)
    lacks = lacks_of(TABS, runs, run_id)
    assert lacks.keys() == empty
    assert all(lack.why and lack.commands for lack in lacks.values())


@pytest.mark.browser
def test_empty_tabs_are_grey_and_say_what_fills_them(runs):
    with served(runs) as address, watched_page(address, width=1440) as watched:
        page = watched.page
        show(watched, f"{address}/?run=timeline.json")
        compare = page.locator(".shell-empty", has_text="Compare")
        compare.wait_for()
        assert page.evaluate(TITLES)[:4] == ["Diagnosis", "Timeline", "Ranks", "Communication"]
        # Live is there only while a run is measured.
        assert "Live" not in page.evaluate(TITLES)
        assert page.locator(".shell-empty").count() == 1
        compare.hover()
        page.get_by_text("hvdprof bench --preset quick --fp16-allreduce --use-adasum").wait_for()
        page.get_by_role("button", name="Copy").last.wait_for()
        assert serious_violations(page) == []
        turn(watched, f"{address}/?run=begun")
        wait_until(page, f"({TITLES})().includes('Live')")
        assert watched.complaints == []


@pytest.mark.browser
def test_an_open_list_of_runs_stays_open_while_the_run_is_read(runs):
    held, released = [], []
    with served(runs) as address, watched_page(address) as watched:
        page = watched.page

        def hold(route):
            is_page = '"output":"..page.children' in (route.request.post_data or "")
            if is_page and not released:
                held.append(route)
            else:
                route.continue_()

        page.route(lambda url: "update-component" in url, hold)
        page.goto(f"{address}/?run=timeline.json")
        page.get_by_role("textbox", name="Run").click()
        page.get_by_role("option", name="measured", exact=True).wait_for()
        released.append(True)
        for route in held:
            route.continue_()
        # The links are drawn anew when the run says what it lacks.
        page.locator(".shell-empty", has_text="Compare").wait_for()
        assert page.get_by_role("option", name="measured", exact=True).is_visible()
        assert watched.complaints == []


@pytest.mark.browser
def test_digits_open_the_tabs_but_not_while_one_types(runs):
    with served(runs) as address, watched_page(address) as watched:
        page = watched.page
        show(watched, f"{address}/?run=measured")
        page.keyboard.press("3")
        page.wait_for_url("**/ranks?run=measured")
        page.keyboard.press("1")
        page.wait_for_url("**/?run=measured")
        page.wait_for_load_state("networkidle")
        page.get_by_role("textbox", name="Run").click()
        page.keyboard.press("5")
        page.keyboard.press("Escape")
        assert "/runs" not in page.url
        assert watched.complaints == []


@pytest.mark.browser
def test_a_run_that_is_read_for_long_is_asked_for_once(tmp_path, monkeypatch):
    def read(path):
        time.sleep(3)
        return read_and_analyze(path)

    # Before, every look at the clock asked again, and the answer that came first was dropped.
    monkeypatch.setattr(navigation, "_LOOK_EVERY_MS", 900)
    slow = RunStore([measured_run(tmp_path / "measured")], read=read)
    with served(slow) as address, watched_page(address) as watched:
        asked = []
        watched.page.on("request", lambda request: asked.append(request.post_data or ""))
        show(watched, f"{address}/?run=measured")
        assert sum('"output":"..page.children' in body for body in asked) == 1
        # It looks again once the page is there.
        watched.page.wait_for_timeout(2_500)
        assert sum('"output":"due.data' in body for body in asked) > 0
