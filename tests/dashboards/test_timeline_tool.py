"""Gestures, keys and controls of the timeline, in a real browser: one page of one run for all."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from hvdprof.dashboards.run_store import RunStore
from tests.builders.browser import serious_violations, wait_until, watched_page
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.served_dashboard import served
from tests.builders.timeline_page import (
    BOX,
    GUTTER,
    WINDOW,
    at,
    drag,
    drawing_of,
    query_of,
    settled,
    show_more,
    whole,
)

pytestmark = pytest.mark.browser

LAST_CHIP_IN_SIGHT = """() => {
    const legend = document.querySelector('.timeline-legend');
    legend.lastChild.focus();
    const [last, room] = [legend.lastChild, legend].map(one => one.getBoundingClientRect());
    return last.right <= room.right + 1;
}"""
SEARCH = "Search: step, rank, tensor or event"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Two segments of 20 steps with a timeline; rank 1 needs 30 ms more in step 12 of the first."""
    tensors = {"allreduce.net.fc.weight": 80_000, "allreduce.net.fc.bias": 400}
    forward = np.full((2, 22), 5.0)
    forward[1, 12] = 35.0
    slow = {"forward": forward, "backward": 4.0, "blocked": 1.0, "optimizer": 0.5}
    first = SegmentSpec(parts_ms=slow, num_steps=20, tensors=tensors, timeline=True)
    second = SegmentSpec(
        parts_ms=typical_parts(10.0, 2.0),
        num_steps=20,
        tensors=tensors,
        timeline=True,
        compression="fp16",
    )
    folder = tmp_path_factory.mktemp("tool") / "run"
    return write_run(folder, [PassSpec(mode="trace", size=2, segments=(first, second))])


@pytest.fixture(scope="module")
def many_ranks(tmp_path_factory):
    """40 ranks, of which rank 17 needs 3 ms more in forward."""
    forward = np.full((40, 22), 5.0) + np.random.default_rng(1).normal(0, 0.05, (40, 22))
    forward[17] += 3.0
    parts = {"forward": forward, "backward": 4.0, "blocked": 12.0 - forward, "optimizer": 0.5}
    segment = SegmentSpec(parts_ms=parts, num_steps=20, timeline=True)
    folder = tmp_path_factory.mktemp("tool") / "many"
    return write_run(folder, [PassSpec(mode="trace", size=40, segments=(segment,))])


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory):
    """A run whose Horovod timeline ends in the warm-up."""
    segment = SegmentSpec(parts_ms=typical_parts(10.0, 2.0), num_steps=20, timeline=True)
    folder = tmp_path_factory.mktemp("tool") / "cut"
    write_run(folder, [PassSpec(mode="trace", size=2, segments=(segment,))])
    (file,) = folder.glob("passes/*/timeline/*.json")
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("}", len(text) // 12) + 1], encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(run_folder, many_ranks, cut_run):
    store = RunStore([run_folder, many_ranks, cut_run])
    with served(store) as address, watched_page(address) as watched:
        watched.address = f"{address}/timeline"
        yield watched


@pytest.fixture
def shown(browser):
    """A function that opens the timeline with a query, and waits until it is drawn."""

    def open_at(query="", run="run"):
        browser.page.goto("about:blank")
        browser.page.goto(f"{browser.address}?run={run}{whole(query)}")
        settled(browser.page)
        return browser.page

    yield open_at
    assert browser.complaints == []
    assert browser.foreign_requests == []


def test_the_wheel_zooms_at_the_pointer(shown):
    page = shown()
    first, last = page.evaluate(WINDOW)
    pointed = first + 0.25 * (last - first)
    page.mouse.move(*at(page, 0.25))
    for _ in range(4):
        page.mouse.wheel(0, -100)
    page.wait_for_url("**from=*")
    low, high = settled(page)
    assert high - low < 0.5 * (last - first)
    assert low + 0.25 * (high - low) == pytest.approx(pointed, abs=0.02 * (high - low))
    page.go_back()
    page.wait_for_url(lambda url: "from=" not in url)
    assert settled(page) == [first, last]


def test_a_drag_pans_and_the_address_keeps_the_window(shown):
    page = shown("&from=100000000&to=200000000")
    drag(page, at(page, 0.6), at(page, 0.3))
    page.wait_for_url(lambda url: "from=100000000" not in url)
    first, last = settled(page)
    assert last - first == 100_000_000
    assert first == pytest.approx(130_000_000, abs=2_000_000)
    assert query_of(page)["from"] == str(first)


@pytest.mark.parametrize("how", ["Shift", "Drag selects"])
def test_a_drag_selects_a_range_whose_table_is_sorted_and_saved(shown, how):
    page = shown("&from=100000000&to=200000000")
    if how == "Shift":
        page.keyboard.down("Shift")
    else:
        show_more(page)
        page.get_by_role("button", name="Select a range by dragging").click()
    # Sloped, as hands draw.
    drag(page, at(page, 0.25), at(page, 0.75, y=60))
    if how == "Shift":
        page.keyboard.up("Shift")
    page.wait_for_url("**sel_to=*")
    query = query_of(page)
    assert int(query["sel_from"]) == pytest.approx(125_000_000, abs=1_000_000)
    assert int(query["sel_to"]) == pytest.approx(175_000_000, abs=1_000_000)
    table = page.locator(".timeline-range")
    table.wait_for()
    assert "busbw" in page.inner_text("#timeline-range")
    sums = page.locator(".timeline-range tbody tr td:nth-child(3)")
    page.get_by_role("button", name="Events that lie at least partly").click()
    counts = [int(text) for text in sums.all_inner_texts()]
    assert counts == sorted(counts, reverse=True)
    page.get_by_role("button", name="Events that lie at least partly").click()
    assert [int(text) for text in sums.all_inner_texts()] == counts[::-1]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the selected range as CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert {"name", "rank", "count", "sum_ns", "mean_ns", "p95_ns", "share"} <= set(rows[0])
    assert all(float(row["sum_ns"]) >= 0 for row in rows)
    page.keyboard.press("f")
    first, last = settled(page)
    assert [first, last] == [int(query["sel_from"]), int(query["sel_to"])]
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "sel_to" not in url)


def test_rare_controls_are_within_the_page(shown):
    page = shown()
    show_more(page)
    widest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.timeline-more > div *')]"
        ".map(one => one.getBoundingClientRect().right))"
    )
    assert widest <= page.evaluate("document.documentElement.clientWidth")


def test_escape_ends_a_drag_and_keeps_the_selection_of_before(shown):
    page = shown("&from=100000000&to=200000000&sel_from=110000000&sel_to=120000000")
    page.locator(".timeline-range").wait_for()
    page.keyboard.down("Shift")
    page.mouse.move(*at(page, 0.3))
    page.mouse.down()
    page.mouse.move(*at(page, 0.5), steps=4)
    page.keyboard.press("Escape")
    page.mouse.move(*at(page, 0.7), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.keyboard.press("f")
    page.wait_for_url("**from=110000000&to=120000000*")
    assert settled(page) == [110_000_000, 120_000_000]


def test_keys_zoom_pan_mark_and_help(shown):
    page = shown("&from=100000000&to=200000000")
    page.mouse.move(*at(page, 0.5))
    page.keyboard.press("d")
    assert settled(page) == [125_000_000, 225_000_000]
    page.keyboard.press("a")
    assert settled(page) == [100_000_000, 200_000_000]
    page.keyboard.press("w")
    first, last = settled(page)
    assert last - first == pytest.approx(64_000_000, rel=1e-3)
    page.keyboard.press("s")
    first, last = settled(page)
    assert last - first == pytest.approx(100_000_000, rel=1e-3)
    page.locator(".timeline-lanes").focus()
    page.keyboard.press("ArrowRight")
    assert settled(page)[0] == pytest.approx(first + 25_000_000, rel=1e-3)
    page.mouse.move(*at(page, 0.5))
    page.keyboard.press("m")
    page.wait_for_url("**marks=*")
    page.keyboard.press("m")
    page.wait_for_url(lambda url: "marks=" not in url)
    page.keyboard.press("?")
    assert "select a range" in page.inner_text("#timeline-help")
    # On other pages the key opens the terms.
    page.wait_for_timeout(500)
    assert page.locator("#glossary-search:visible").count() == 0
    page.keyboard.press("Escape")
    page.wait_for_selector("#timeline-help", state="hidden")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == SEARCH
    page.keyboard.type("w")
    assert settled(page)[0] == pytest.approx(first + 25_000_000, rel=1e-3)


def test_an_event_has_facts_its_execution_and_its_last_rank_and_is_copied(shown):
    page = shown("&step=8")
    page.get_by_role("searchbox", name=SEARCH).fill("fc.weight")
    page.keyboard.press("Enter")
    page.locator(".timeline-hits button").first.wait_for()
    page.wait_for_url("**event=*")
    hits = page.locator(".timeline-hits button").all_inner_texts()
    assert "step" in hits[0]
    assert "rank 0" in hits[0]
    page.get_by_role("button", name="Next hit").click()
    page.wait_for_url("**hit=1*")
    details = page.locator("#timeline-details")
    details.get_by_text("Ready times for this tensor").wait_for()
    assert details.locator(".timeline-last").inner_text().startswith("rank 1")
    page.get_by_role("button", name="Next event of this name").click()
    page.wait_for_url(lambda url: query_of(page).get("event") not in (None, hits[1]))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the event as JSON").click()
    details.get_by_text("Copied").wait_for()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["tensor"] == "allreduce.net.fc.weight"
    assert copied["arrivals"]["ranks"][0] == [1, 0]
    search = page.get_by_role("searchbox", name=SEARCH)
    search.fill("no such name")
    search.press("Enter")
    page.get_by_text('No event of this pass contains "no such name".').wait_for()


def test_a_click_chooses_an_event_and_the_names_pin_a_lane(shown):
    page = shown("&step=8")
    x, y = at(page, 0.3)
    page.mouse.click(x, y)
    page.wait_for_url("**event=*")
    page.locator("#timeline-details").get_by_text("duration").wait_for()
    before = page.evaluate(BOX)
    page.mouse.click(before["x"] + 20, y)
    page.wait_for_url("**pins=0*")
    settled(page)
    # The pinned lane stands in the sticky part, so the other lanes begin lower.
    assert page.evaluate(BOX)["y"] > before["y"]


def test_facts_stand_below_the_lanes_with_the_same_event_on_the_other_ranks(shown):
    page = shown("&step=12")
    width = page.evaluate(BOX)["width"]
    assert width > 0.9 * page.viewport_size["width"]
    page.mouse.click(*at(page, 0.3, y=60))
    details = page.locator("#timeline-details")
    details.get_by_text("duration").wait_for()
    settled(page)
    box = page.evaluate(BOX)
    assert box["width"] == width
    assert details.bounding_box()["y"] > box["y"]
    assert details.bounding_box()["height"] == pytest.approx(160, abs=1)
    rows = details.locator(".timeline-same tr")
    assert rows.all_inner_texts() == ["rank 1\t\n\t35 ms\tthis", "rank 0\t\n\t5 ms\t\u221230 ms"]
    rows.nth(1).get_by_role("button").click()
    details.get_by_text("rank 0 node").wait_for()
    assert details.get_by_role("link", name="Ranks").get_attribute("href").startswith("/ranks?run=")
    page.keyboard.press("Escape")
    details.wait_for(state="hidden")


def test_the_page_opens_three_steps_wide_and_n_and_p_go_through_the_steps(browser, shown):
    browser.page.goto("about:blank")
    browser.page.goto(f"{browser.address}?run=many")
    first, last = settled(browser.page)
    page = browser.page
    steps = page.evaluate("fetch('/timeline-data/view?run=many').then((a) => a.json())")
    inside = [one for one in steps["acting"] if first < one[0] and one[1] < last]
    assert len(inside) == 1
    length = inside[0][1] - inside[0][0]
    assert last - first == pytest.approx(3 * length, rel=0.02)
    at_step = steps["acting"].index(inside[0])
    page.keyboard.press("n")
    page.wait_for_url("**from=*")
    assert settled(page)[0] == pytest.approx(
        steps["acting"][at_step + 1][0] - length, abs=0.1 * length
    )
    page.keyboard.press("p")
    page.wait_for_timeout(100)
    assert settled(page)[0] == pytest.approx(first, abs=0.1 * length)


def test_lanes_take_the_room_that_the_window_has(shown):
    page = shown("&step=8", run="many")
    page.set_viewport_size({"width": 1280, "height": 480})
    try:
        settled(page)
        low = page.evaluate(BOX)["height"]
        room = "document.querySelector('.timeline-stage').getBoundingClientRect().height"
        assert page.evaluate(room) == pytest.approx(480 - 150, abs=2)
        page.set_viewport_size({"width": 1280, "height": 1000})
        settled(page)
        assert page.evaluate(BOX)["height"] > low
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("width", [1280, 1440])
def test_the_controls_are_two_rows_whatever_the_pass_holds(browser, shown, width):
    browser.resize(width, dark=False)
    page = shown()
    assert page.locator(".timeline-legend button").count() >= 9
    head, controls = (
        page.locator(place).bounding_box() for place in (".timeline-head", ".timeline-controls")
    )
    assert controls["height"] < 45
    assert controls["y"] + controls["height"] - head["y"] < 100
    # What does not fit is reached by the keyboard.
    assert page.evaluate(LAST_CHIP_IN_SIGHT)
    browser.resize(1280, dark=False)


def test_horovods_empty_lanes_are_folded_and_open_by_a_click(browser, shown):
    page = shown(run="cut")
    (row,) = [text for text in drawing_of(page).texts if text.startswith("▸ Horovod: ")]
    assert "its timeline holds " in row
    assert "executions" not in drawing_of(page).texts
    box = page.evaluate(BOX)
    page.mouse.click(box["x"] + 40, box["y"] + box["height"] - 12)
    page.wait_for_url("**open=horovod-lanes*", timeout=20_000)
    settled(page)
    assert "executions" in drawing_of(page).texts


def test_one_search_takes_a_step_ranks_and_a_text(shown):
    page = shown()
    search = page.get_by_role("searchbox", name=SEARCH)
    search.fill("step 12, rank 1, forward")
    search.press("Enter")
    page.wait_for_url("**hit=*")
    assert query_of(page)["ranks"] == "1"
    page.locator("#timeline-details").get_by_text("duration").wait_for()
    facts = page.locator("#timeline-details .timeline-facts").first.inner_text()
    assert "12" in facts
    assert "35.0 ms" in facts
    search.fill("")
    search.press("Enter")
    page.wait_for_url(lambda url: "ranks=" not in url and "find=" not in url)


def test_the_legend_says_the_share_of_the_view(shown):
    page = shown("&step=8")
    texts = page.get_by_role("group", name="Activities").locator("button").all_inner_texts()
    shares = {
        name: float(share.removesuffix(" %"))
        for name, _, share in (text.partition("\n") for text in texts)
        if share
    }
    of_ranks = ("forward", "backward", "blocked", "optimizer")
    assert sum(shares.get(name, 0) for name in of_ranks) == pytest.approx(100, abs=2)
    # 5 of 10.5 ms, and a part of the steps beside it.
    assert shares["forward"] == pytest.approx(48, abs=6)


def test_far_from_the_start_the_axis_counts_from_a_base(shown):
    page = shown("&from=300000000&to=300010000")
    texts = [text for text in drawing_of(page).texts if text.startswith("+")]
    assert "+0 µs" in texts
    assert "from 300.000 ms" in drawing_of(page).texts
    for _ in range(30):
        page.keyboard.press("w")
    first, last = settled(page)
    assert last - first == 1_000


def test_one_goes_through_segments_and_steps_of_a_kind(shown):
    page = shown()
    show_more(page)
    segments = page.get_by_label("Segment")
    names = [text for text in segments.locator("option").all_inner_texts() if "steps" in text]
    assert len(names) == 2
    page.get_by_label("Steps of a kind").select_option("straggler")
    page.wait_for_url("**hit=0*")
    hits = page.locator(".timeline-hits button")
    hits.first.wait_for()
    assert hits.count() == 1
    assert "step 12" in hits.first.inner_text()
    assert "rank 1" in hits.first.inner_text()
    assert page.get_by_role("button", name="Next hit").is_disabled()
    first_pass = settled(page)
    segments.select_option(index=2)
    page.wait_for_url("**segment=*")
    settled(page)
    page.get_by_role("searchbox", name=SEARCH).fill("step 12")
    page.keyboard.press("Enter")
    page.wait_for_url("**step=12*")
    second = settled(page)
    assert second[0] > first_pass[1]


def test_activities_tensors_and_ranks_are_filtered(shown):
    page = shown("&step=8")
    caption = page.inner_text("#timeline-caption")
    search = page.get_by_role("searchbox", name=SEARCH)
    search.fill("tensor bias")
    page.keyboard.press("Enter")
    page.wait_for_url("**tensor=bias*")
    wait_until(
        page, "old => document.querySelector('#timeline-caption').innerText !== old", caption
    )
    height = settled(page) and page.evaluate(BOX)["height"]
    search.fill("tensor bias, rank 1")
    page.keyboard.press("Enter")
    page.wait_for_url("**ranks=1*")
    settled(page)
    assert page.evaluate(BOX)["height"] < height
    page.get_by_role("button", name="forward", exact=True).click()
    page.wait_for_url("**hide=forward*")
    assert page.get_by_role("button", name="forward", exact=True).get_attribute("aria-pressed") == (
        "false"
    )


def test_filters_that_nothing_fits_are_said(shown):
    page = shown("&step=8&tensor=nosuch&ranks=7")
    caption = page.inner_text("#timeline-caption")
    assert 'No tensor of this pass contains "nosuch".' in caption
    assert 'No rank of this pass is in "7": all are shown.' in caption


def test_the_overview_moves_the_window_and_a_double_click_shows_the_whole_pass(shown):
    page = shown("&from=100000000&to=200000000")
    box = page.evaluate(BOX)
    top = page.evaluate("document.querySelector('.timeline-top').getBoundingClientRect().y")
    drag(
        page,
        (box["x"] + GUTTER + 0.7 * (box["width"] - GUTTER), top + 12),
        (box["x"] + GUTTER + 0.9 * (box["width"] - GUTTER), top + 12),
    )
    page.wait_for_url(lambda url: "from=100000000" not in url)
    first, _ = settled(page)
    assert first > 200_000_000
    page.mouse.dblclick(*at(page, 0.5))
    page.wait_for_url("**all=1*")
    assert settled(page)[0] == 0


def test_a_figure_is_saved_with_the_name_of_the_run(shown):
    page = shown("&step=8")
    show_more(page)
    for form, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save Timeline as {form}").click()
        saved = Path(download.value.path()).read_bytes()
        assert saved.startswith(begin)
    assert b">run \xc2\xb7 " in saved
    assert b"rank 1" in saved


def test_the_axis_stays_in_sight_and_nothing_offends_a_reader(shown):
    page = shown("&lanes=tensors&sel_from=100000000&sel_to=200000000")
    page.locator(".timeline-range").wait_for()
    assert serious_violations(page) == []
    # Room to scroll, of which a pass with few lanes has none.
    page.evaluate("document.body.style.paddingBottom = '900px'")
    axis = "document.querySelector('.timeline-top').getBoundingClientRect().y"
    before, lanes_before = page.evaluate(axis), page.evaluate(BOX)["y"]
    page.evaluate("by => window.scrollBy(0, by)", before + 40)
    assert page.evaluate(axis) == pytest.approx(0, abs=1)
    assert page.evaluate(BOX)["y"] == pytest.approx(lanes_before - before - 40, abs=1)


def test_one_zoom_asks_the_server_once(shown):
    page = shown("&from=100000000&to=200000000")
    page.wait_for_load_state("networkidle")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="Zoom in").click()
    settled(page)
    assert len([url for url in asked if "/timeline-data/view" in url]) == 1
    assert [url for url in asked if "_dash" in url and "timeline" in url] == []


def test_two_fingers_zoom_at_their_middle(shown):
    page = shown("&from=100000000&to=200000000")
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    (left, y), (right, _) = at(page, 0.4), at(page, 0.6)

    def touch(kind, *places):
        points = [{"x": x, "y": y, "id": number} for number, x in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", left, right)
    for by in range(10, 101, 10):
        touch("touchMove", left - by, right + by)
    touch("touchEnd")
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    page.wait_for_url(lambda url: "from=100000000" not in url)
    first, last = settled(page)
    apart = right - left
    assert last - first == pytest.approx(1e8 * apart / (apart + 200), rel=0.02)
    assert (first + last) / 2 == pytest.approx(150_000_000, rel=0.01)


def test_many_ranks_are_folded_beside_their_extremes_and_opened_by_a_click(shown):
    page = shown("&step=8", run="many")
    folded = page.evaluate(BOX)["height"]
    page.mouse.click(page.evaluate(BOX)["x"] + 20, at(page, 0, y=12)[1])
    page.wait_for_url("**open=all*")
    # The figure grows with the answer that holds all ranks.
    wait_until(page, f"({BOX})().height > {folded + 200}")


def test_the_state_of_the_view_survives_a_reload(shown):
    page = shown(
        "&step=8&pins=1&marks=140000000&sel_from=130000000&sel_to=150000000&hide=data&event=0"
    )
    page.locator(".timeline-range").wait_for()
    page.locator("#timeline-details").get_by_text("duration").wait_for()
    page.keyboard.press("d")
    page.wait_for_url(lambda _: "from" in query_of(page))
    window = settled(page)
    page.reload()
    assert settled(page) == window
    query = query_of(page)
    assert {
        "pins": "1",
        "marks": "140000000",
        "hide": "data",
        "event": "0",
    }.items() <= query.items()


def test_the_facts_of_a_bin_follow_the_window(shown):
    page = shown("&lane=0&at=150000000&from=100000000&to=200000000")
    title = page.locator("#timeline-details h2")
    title.get_by_text("66.7 µs wide").wait_for()
    page.mouse.move(*at(page, 0.5))
    page.keyboard.press("w")
    title.get_by_text("42.7 µs wide").wait_for()
    assert "Around 150.000 ms" in title.inner_text()
