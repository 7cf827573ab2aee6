"""What a reader does in the dashboard, in a real browser, with runs small and large."""

import csv
import random
from pathlib import Path

import pytest

from benchmarks import generate_timeline
from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.run_store import RunStore
from tests.builders.browser import (
    serious_violations,
    show,
    turn,
    wait_until,
    wait_until_drawn,
    watched_page,
)
from tests.builders.served_dashboard import empty_run, measured_run, served, standalone_timeline

pytestmark = pytest.mark.browser

A_MILLION = 1_000_000
IS_EXACT = """() => {
    const tool = document.getElementById('timeline');
    return Boolean(tool && tool.dataset.exact === 'true');
}"""
THE_ADDRESS_IS_THE_WINDOW = """() => location.search.includes(
    `from=${document.getElementById('timeline').dataset.first}`)"""
ROWS_NAME = """text =>
    document.querySelector('.waterfall .yaxislayer-above').textContent.includes(text)"""
NOTE_COPIES = """() => { window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {
    writeText: text => { window.copied.push(text); return Promise.resolve(); }}}); }"""
TAB_IN_SIGHT = """() => {
    const place = document.querySelector('.shell-here').getBoundingClientRect();
    return place.left >= 0 && place.right <= window.innerWidth;
}"""
MOST_SHOWN = 12
"""Rows of a grid in its window on the screen."""
# In one task, as a browser prints: what a later frame would draw is not on the paper.
ON_PAPER = """() => {
    window.dispatchEvent(new Event('beforeprint'));
    const over = [...document.querySelectorAll('.js-plotly-plot .main-svg')].map(svg =>
        svg.getBoundingClientRect().right -
        svg.closest('.mantine-Paper-root').getBoundingClientRect().right);
    const grids = [...document.querySelectorAll('.data-table')];
    return [
        [...document.querySelectorAll('.for-paper')].map(table => table.rows.length),
        Math.max(...over),
        grids.every(grid => grid.offsetHeight === 0),
    ];
}"""
CANVAS_OVER = """() => {
    const stage = document.querySelector('.timeline-stage');
    stage.style.width = '600px';
    return Math.max(...[...stage.querySelectorAll('canvas')].map(canvas =>
        canvas.getBoundingClientRect().right - stage.getBoundingClientRect().right));
}"""
RESERVED_HEADER = """() => {
    const header = document.querySelector('.shell-header');
    return Math.abs(header.scrollHeight - parseFloat(getComputedStyle(header).minHeight)) <= 1;
}"""
STYLE_OF = "([place, name]) => getComputedStyle(document.querySelector(place))[name]"
CAPTION_IS_NEW = "old => document.querySelector('#timeline-caption').innerText !== old"
COUNT_JUMPS = """
    window.moved = 0;
    window.jumps = [];
    const count = list => list.getEntries().forEach(one => {
        window.moved += one.value;
        window.jumps.push([one.value, ...one.sources.map(source => [
            source.node && source.node.nodeName, source.node && source.node.className,
            source.previousRect.y, source.currentRect.y])]);
    });
    new PerformanceObserver(count).observe({type: 'layout-shift', buffered: true});
"""


def saved(page, button) -> list[list[str]]:
    """The rows of the CSV file that a button saves."""
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name=button).first.click()
    # The grid begins its files with a mark of the encoding, which spreadsheets ask for.
    text = Path(download.value.path()).read_text(encoding="utf-8-sig")
    return list(csv.reader(text.splitlines()))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A store of one run, which the first page that needs it analyzes for all tests."""
    return RunStore([measured_run(tmp_path_factory.mktemp("measured") / "run")])


@pytest.mark.parametrize("width", [1280, 390])
def test_a_reader_goes_from_the_verdict_to_the_event_behind_it(measured, width):
    with served(measured) as address, watched_page(address, width=width) as watched:
        page = watched.page
        # In motion, which the pages of all other tests are without.
        page.emulate_media(reduced_motion="no-preference")
        show(watched, address)
        page.wait_for_selector(".waterfall .barlayer path", state="attached")
        assert serious_violations(page) == []
        assert "2 ranks" in page.text_content(".waterfall .yaxislayer-above")
        page.get_by_role("textbox", name="Ranks").click()
        page.get_by_role("option", name="1 rank", exact=True).click()
        page.wait_for_url("**np=1*")
        wait_until(page, ROWS_NAME, arg="1 rank")
        page.go_back()
        wait_until(page, ROWS_NAME, arg="2 ranks")
        page.get_by_role("link", name="Show in timeline").first.click()
        page.wait_for_url("**/timeline?*from=*")
        wait_until(page, IS_EXACT)
        assert "each drawn" in page.inner_text("#timeline-caption")
        assert serious_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.complaints == []
        assert watched.foreign_requests == []


FIGURE = "Lateness of each rank, step by step"


def test_figures_and_tables_are_saved(measured):
    with served(measured) as address, watched_page(address) as watched:
        page = watched.page
        show(watched, f"{address}/ranks")
        page.locator("summary", has_text="Details: caused wait").click()
        page.wait_for_selector(".data-table .ag-row", timeout=60_000)
        stragglers = saved(page, "Save Stragglers as CSV")
        assert {"rank", "lateness_ns", "lateness_low_ns", "lateness_high_ns"} <= set(stragglers[0])
        by_rank = {row[0]: dict(zip(stragglers[0], row, strict=True)) for row in stragglers[1:]}
        assert float(by_rank["1"]["lateness_ns"]) > 2e6
        assert page.get_by_role("columnheader", name="lateness", exact=True).count() == 1
        stalls = saved(page, "Save Longest stalls as CSV")
        assert stalls[0] == ["step", "tensor", "wait_ns", "last_rank", "decided", "timeline"]
        assert float(stalls[1][2]) > 2e6
        assert "/timeline?run=run" in stalls[1][-1]
        for form, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
            with page.expect_download(timeout=30_000) as download:
                page.get_by_role("button", name=f"Save {FIGURE} as {form}").click()
            saved_figure = Path(download.value.path()).read_bytes()
            assert saved_figure.startswith(begin)
        # A picture stands alone: it names what it shows, and the run.
        assert f">{FIGURE}<".encode() in saved_figure
        assert b">run<" in saved_figure
        page.evaluate(NOTE_COPIES)
        for title in ("Stragglers", "Longest stalls"):
            page.get_by_role("button", name=f"Copy {title}").click()
        by_rank, longest = page.evaluate("window.copied")
        assert by_rank.splitlines()[0].split("\t")[0].strip('"') == "rank"
        assert longest.startswith("step\ttensor\twait_ns")
        turn(watched, address)
        page.locator("summary", has_text="All numbers").click()
        cells = saved(page, "Save the numbers of mnist as CSV")
        (two,) = [
            row
            for row in (dict(zip(cells[0], line, strict=True)) for line in cells[1:])
            if (row["np"], row["compression"]) == ("2", "none")
        ]
        low, value, high = (float(two[f"samples_per_s{end}"]) for end in ("_low", "", "_high"))
        assert low < value < high
        assert watched.complaints == []


def test_the_tab_of_the_page_is_in_sight_on_a_phone(measured):
    with served(measured) as address, watched_page(address, width=390) as watched:
        page = watched.page
        show(watched, f"{address}/compare")
        wait_until(page, TAB_IN_SIGHT)
        assert watched.complaints == []


def test_paper_holds_all_rows_of_a_grid_and_the_whole_width_of_a_figure(measured):
    rows = len(measured.table("run", "collectives"))
    assert rows > MOST_SHOWN
    with served(measured) as address, watched_page(address) as watched:
        page = watched.page
        show(watched, f"{address}/communication?run=run")
        page.wait_for_selector(".data-table .ag-row", timeout=60_000)
        page.emulate_media(media="print")
        # The width of an A4 sheet with its margins.
        page.set_viewport_size({"width": 718, "height": 1000})
        printed, over, hidden = page.evaluate(ON_PAPER)
        assert printed[-1] == rows + 1
        assert over <= 0
        assert hidden
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator(".for-paper").count() == 0
        # The bars of the first page are on the paper, and no empty sheet behind them.
        show(watched, f"{address}/?run=run")
        assert page.evaluate(STYLE_OF, [".rank-part", "printColorAdjust"]) == "exact"
        assert page.evaluate(STYLE_OF, ["main", "minHeight"]) == "0px"
        # The timeline was drawn for the window, and is not cut at the edge of the sheet.
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 1280, "height": 900})
        show(watched, f"{address}/timeline?run=run")
        wait_until(page, IS_EXACT)
        page.emulate_media(media="print")
        assert page.evaluate(CANVAS_OVER) <= 1
        assert page.evaluate(STYLE_OF, [".timeline-search", "display"]) == "none"
        assert watched.complaints == []


def test_what_scrolls_and_saves_can_be_reached_by_keys(measured):
    with served(measured) as address, watched_page(address) as watched:
        page = watched.page
        show(watched, address)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        reached = set()
        for _ in range(45):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
            reached.add(page.evaluate("document.activeElement.textContent"))
        assert {
            "Light or dark",
            "Glossary",
            "Ranks",
            "Save Why a step takes longer as PNG",
        } <= reached


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """A standalone timeline of more than a million records, and a store that has read it."""
    file = tmp_path_factory.mktemp("million") / "timeline.json"
    number = generate_timeline.write(file, 110_000_000, "horovod", random.Random(3))
    runs = RunStore([file])
    events = runs.run(file.name).events
    assert len(events) >= A_MILLION, number
    # Also what the command line leaves in files where a timeline is large.
    assert len(runs.table(file.name, "collectives"))
    return runs


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_million_events_are_shown_and_zoomed(million, width):
    with served(million) as address, watched_page(address, width=width) as watched:
        page = watched.page
        for one in PAGES:
            turn(watched, f"{address}{one.PATH}")
            assert page.locator("main").inner_text().strip(), one.TITLE
            assert page.evaluate("document.documentElement.scrollWidth") <= width, one.TITLE
            assert watched.complaints == [], one.TITLE
        show(watched, f"{address}/timeline?all=1")
        wait_until(page, IS_EXACT)
        assert "binned, " in page.inner_text("#timeline-caption")
        for _ in range(14):
            caption = page.inner_text("#timeline-caption")
            page.get_by_role("button", name="Zoom in").click()
            wait_until(page, CAPTION_IS_NEW, arg=caption)
            if "each drawn" in page.inner_text("#timeline-caption"):
                break
        wait_until(page, IS_EXACT)
        wait_until(page, THE_ADDRESS_IS_THE_WINDOW)
        link = page.url
        caption = page.inner_text("#timeline-caption")
        # It was empty once, beside other load, and never again: this says why.
        assert caption, page.evaluate("document.getElementById('timeline').outerHTML")
        page.goto("about:blank")
        show(watched, link)
        wait_until(page, IS_EXACT)
        assert page.inner_text("#timeline-caption") == caption
        assert watched.complaints == []


# Requests are held in the page: where Playwright holds them, the browser has no cache.
HOLD_BACK = """
    window.held = [];
    const ask = window.fetch;
    window.fetch = async (url, asked) => {
        const isHeader = String(asked?.body).includes('"output":"..header-links.children');
        if (!window.released && String(url).includes('update-component') && isHeader === LATE) {
            await new Promise(done => window.held.push(done));
        }
        return ask(url, asked);
    };
"""
RELEASE = "window.released = true; window.held.forEach(done => done())"


def show_with_one_part_late(watched, address, late):
    """Draw a page whose header, or whose content, is asked for after the other one is drawn.

    The order of both is that of a machine, a server or a network in a bad moment: held back here,
    it does not depend on one.
    """
    page = watched.page
    page.goto(address)
    page.wait_for_selector(".shell-link" if late == "page" else "main > *")
    assert page.locator("main > *" if late == "page" else ".shell-link").count() == 0
    wait_until(page, "window.held.length > 0")
    page.evaluate(RELEASE)
    page.wait_for_selector(".shell-link")
    page.wait_for_selector("main > *")
    page.wait_for_load_state("networkidle")
    wait_until_drawn(page)
    page.wait_for_timeout(500)


@pytest.mark.parametrize("late", ["header", "page"])
def test_nothing_jumps_while_a_page_is_drawn(measured, late):
    with served(measured) as address, watched_page(address) as watched:
        page = watched.page
        page.add_init_script(COUNT_JUMPS)
        page.add_init_script(HOLD_BACK.replace("LATE", str(late == "header").lower()))
        for width in (1280, 390):
            watched.resize(width, dark=False)
            for one in PAGES:
                show_with_one_part_late(watched, f"{address}{one.PATH}?run=run", late)
                # What web vitals call good is 0.1.
                moved, jumps = page.evaluate("[window.moved, window.jumps]")
                assert moved < 0.05, (one.TITLE, width, jumps)
                assert page.evaluate(RESERVED_HEADER), (one.TITLE, width)


def test_runs_of_every_kind_stand_side_by_side(tmp_path):
    paths = [
        measured_run(tmp_path / "run"),
        empty_run(tmp_path / "none"),
        standalone_timeline(tmp_path),
    ]
    with served(RunStore(paths)) as address, watched_page(address) as watched:
        page = watched.page
        show(watched, f"{address}/?run=run")
        for name in ("none", "timeline.json", "run"):
            page.get_by_role("textbox", name="Run").click()
            page.get_by_role("option", name=name, exact=True).click()
            page.wait_for_url(lambda url, name=name: f"run={name}" in url)
            page.wait_for_load_state("networkidle")
            assert watched.complaints == [], name
            assert serious_violations(page) == [], name
