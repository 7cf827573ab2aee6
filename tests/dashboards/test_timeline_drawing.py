"""What the timeline draws and lists, in a real browser: a job of two hosts, and one of 40 ranks."""

import re

import numpy as np
import pytest

from hvdprof.dashboards.run_store import RunStore
from hvdprof.rundir.layout import RunPaths
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
    whole,
    x_of,
)

pytestmark = pytest.mark.browser

TRACED = "&segment=mnist-horovod-none-average"
TINT = "rgba(213,94,0,0.12)"
FOCUSED = "document.activeElement.getAttribute('aria-label')"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Four ranks on two hosts, plain torch and Horovod; rank 1 is 30 ms late in step 12."""
    tensors = {f"allreduce.net.layer{number}.weight": 80_000 for number in range(8)}
    forward = np.full((4, 22), 5.0)
    forward[1, 12] = 35.0
    blocked = 2.0 + forward.max(axis=0) - forward
    parts = {"data": 0.5, "forward": forward, "backward": 6.0, "blocked": blocked}
    plain = SegmentSpec(engine="torch", parts_ms=typical_parts(9.0), num_steps=20)
    traced = SegmentSpec(
        parts_ms=parts | {"optimizer": 0.5}, num_steps=20, tensors=tensors, timeline=True
    )
    hosts = ("nodeA", "nodeA", "nodeB", "nodeB")
    folder = write_run(
        tmp_path_factory.mktemp("drawn") / "job",
        [PassSpec(mode="trace", size=4, segments=(plain, traced), hosts=hosts)],
    )
    # Negotiations of 6 ms in place of 0.
    written = RunPaths(folder).of_pass("01-np4-trace-r1").timeline(traced.id)
    begin = r'(?<="NEGOTIATE_ALLREDUCE", "ts": )\d+'
    text = re.sub(begin, lambda ts: str(int(ts[0]) - 6_000), written.read_text(encoding="utf-8"))
    written.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """40 ranks on two hosts, of which rank 17 needs 3 ms more in forward."""
    forward = np.full((40, 12), 5.0) + np.random.default_rng(1).normal(0, 0.05, (40, 12))
    forward[17] += 3.0
    parts = {"forward": forward, "backward": 4.0, "blocked": 12.0 - forward, "optimizer": 0.5}
    segment = SegmentSpec(parts_ms=parts, num_steps=10, timeline=True)
    hosts = ("nodeA",) * 20 + ("nodeB",) * 20
    folder = tmp_path_factory.mktemp("drawn") / "many"
    return write_run(folder, [PassSpec(mode="trace", size=40, segments=(segment,), hosts=hosts)])


@pytest.fixture(scope="module")
def browser(job, many):
    with served(RunStore([job, many])) as address, watched_page(address) as watched:
        watched.address = f"{address}/timeline"
        yield watched


@pytest.fixture
def shown(browser):
    """A function that opens the timeline with a query, and waits until it is drawn."""

    def open_at(query="", run="job"):
        browser.page.goto("about:blank")
        browser.page.goto(f"{browser.address}?run={run}{whole(query)}")
        settled(browser.page)
        return browser.page

    yield open_at
    assert browser.complaints == []
    assert browser.foreign_requests == []


def test_a_step_with_a_straggler_is_tinted_with_arrows_from_its_last_rank_and_counters(shown):
    page = shown(f"&step=12{TRACED}")
    drawing = drawing_of(page)
    # The window of a step has a margin of 5 % on each side.
    first, last = page.evaluate(WINDOW)
    start = first + (last - first) * 0.05 / 1.1
    end = last - (last - first) * 0.05 / 1.1
    assert end - start == pytest.approx(44e6, rel=0.01)
    tint = [box for box in drawing.boxes if box.fill == TINT]
    assert [box.x for box in tint] == [pytest.approx(x_of(page, start), abs=1.5)]
    assert tint[0].x + tint[0].width == pytest.approx(x_of(page, end), abs=1.5)
    assert "12 straggler rank 1" in drawing.texts
    # Its gradients are ready after 0.5 + 35 + 6 ms, those of the others 30 ms before.
    arrows = [arrow for arrow in drawing.arrows if arrow[0][0] > x_of(page, start)]
    rows = {rank: drawing.texts[f"rank {rank}"] for rank in range(4)}
    for (ready_x, from_y), _ in arrows:
        assert ready_x == pytest.approx(x_of(page, start + 41.5e6), abs=2)
        assert from_y == pytest.approx(rows[1], abs=1)
    assert sorted(y for _, (_, y) in arrows) == pytest.approx([rows[0], rows[2], rows[3]], abs=1)
    drawn = [box for box in drawing.boxes_at("executions") if box.fill != TINT]
    executed = [box for box in drawn if box.x > x_of(page, start)]
    release = max(box.x + box.width for box in executed)
    assert [x for _, (x, _) in arrows] == pytest.approx([release] * 3, abs=1.5)
    for counter in ("bytes in flight", "busbw"):
        bars = [
            box
            for box in drawing.boxes
            # The floor of a counter is half of its height below its name.
            if box.y + box.height == pytest.approx(drawing.texts[counter] + 35, abs=0.5)
            and x_of(page, start) < box.x < x_of(page, end)
        ]
        assert min(box.x for box in bars) == pytest.approx(executed[0].x, abs=4), counter
        assert max(box.x + box.width for box in bars) == pytest.approx(release, abs=4), counter
    assert any(text.startswith("mean up to 640 kB") for text in drawing.texts)
    # No straggler, no tint.
    other = drawing_of(shown(f"&step=8{TRACED}"))
    assert [box for box in other.boxes if box.fill == TINT] == []


def test_the_page_begins_with_what_the_window_says(shown):
    page = shown(f"&step=12{TRACED}")
    answer = page.locator("#timeline-answer")
    assert answer.inner_text() == (
        "Step 12: 44.0 ms, ranks blocked 55.7 %;"
        " straggler rank 1, 30.0 ms behind the median of the others."
    )
    top = answer.bounding_box()["y"]
    assert top < page.get_by_role("toolbar", name="Timeline").bounding_box()["y"]
    page.keyboard.press("0")
    settled(page)
    assert answer.inner_text() == (
        "2 segments in view: median step 9.00 ms (mnist-torch-none-average) to 14.0 ms"
        " (mnist-horovod-none-average); straggler in 1 of 40: rank 1."
    )


def test_hits_are_listed_with_their_place_and_gone_through_by_keys(shown):
    page = shown()
    page.keyboard.press("/")
    page.keyboard.type("layer3")
    page.keyboard.press("Enter")
    page.wait_for_url("**hit=0*")
    hits = page.locator(".timeline-hits button")
    # Negotiation, execution and transfer of each recorded step.
    assert hits.count() % 3 == 0
    assert hits.first.inner_text().splitlines()[0].endswith("allreduce.net.layer3.weight")
    assert all(text in hits.first.inner_text() for text in ("step ", "rank 0 · at ", " long"))
    page.keyboard.press("Enter")
    page.wait_for_url("**hit=1*")
    page.get_by_role("button", name="Next hit").focus()
    windows = []
    for number in (2, 3):
        page.keyboard.press("Enter")
        page.wait_for_url(f"**hit={number}*")
        windows.append(settled(page))
        # The list was drawn anew, and the key still works.
        assert page.evaluate(FOCUSED) == "Next hit"
        assert hits.nth(number).get_attribute("aria-current") == "true"
        assert f"{number + 1} of {hits.count()}" in page.inner_text("#timeline-hits")
    assert windows[0][0] < windows[1][0]
    chosen = query_of(page)["event"]
    page.get_by_role("button", name="Previous hit").click()
    page.wait_for_url("**hit=2*")
    assert settled(page) == windows[0]
    assert query_of(page)["event"] != chosen


def test_the_previous_and_the_next_event_have_the_same_name_and_rank(shown):
    page = shown(f"&step=8{TRACED}")
    page.mouse.click(*at(page, 0.3, y=32))
    page.wait_for_url("**event=*")
    details = page.locator("#timeline-details")
    details.get_by_text("rank 0 nodeA").wait_for()
    assert details.locator("h2").inner_text() == "forward"
    first = query_of(page)["event"]
    page.get_by_role("button", name="Next event of this name").focus()
    for step in (9, 10):
        page.keyboard.press("Enter")
        details.get_by_role("row", name=f"step {step}", exact=True).wait_for()
    assert details.locator("h2").inner_text() == "forward"
    assert details.get_by_role("row", name="lane rank 0 nodeA").count() == 1
    # The window has followed the event.
    assert settled(page)[0] > 0
    for step in (9, 8):
        page.get_by_role("button", name="Previous event of this name").click()
        details.get_by_role("row", name=f"step {step}", exact=True).wait_for()
    page.wait_for_url(f"**event={first}&*")
    # F fits the chosen event into the window.
    page.keyboard.press("f")
    low, high = settled(page)
    assert high - low == pytest.approx(3 * 5e6, rel=0.01)


def test_all_columns_of_the_range_fit_and_are_sorted_by_keys(shown):
    page = shown(f"&step=8{TRACED}")
    page.keyboard.press("r")
    page.wait_for_url("**sel_to=*")
    table = page.locator(".timeline-range")
    table.wait_for()
    assert [query_of(page)[key] for key in ("sel_from", "sel_to")] == [
        str(end) for end in page.evaluate(WINDOW)
    ]
    fits = """() => {
        const box = document.querySelector('.timeline-range').parentElement;
        return box.scrollWidth <= box.clientWidth;
    }"""
    assert page.evaluate(fits)
    page.get_by_role("button", name="Rank or lane of the events").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=-lane*")
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=lane*")
    lanes = table.locator("tbody td:nth-child(2)").all_inner_texts()
    assert lanes[0] == "rank 0"
    assert lanes[-1].startswith("negotiation")
    page.reload()
    settled(page)
    table.wait_for()
    assert table.locator("tbody td:nth-child(2)").all_inner_texts() == lanes
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("lane")
    whole = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    settled(page)
    assert page.evaluate(fits)
    assert table.locator("tbody tr:first-child td:last-child").inner_text().endswith("%")
    page.set_viewport_size(whole)


def test_ranks_are_grouped_by_host_and_folded_to_bands_beside_the_extremes(shown):
    few = drawing_of(shown(f"&step=8{TRACED}"))
    assert (
        few.texts["nodeA: 2 ranks"]
        < few.texts["rank 1"]
        < few.texts["nodeB: 2 ranks"]
        < few.texts["rank 2"]
    )
    page = shown(run="many")
    folded = drawing_of(page)
    assert "▸ 40 ranks on 2 hosts" in folded.texts
    named = [text for text in folded.texts if text.startswith("rank ")]
    assert named[0] == "rank 17 (slow)"
    assert len(named) == 7
    page.keyboard.press("o")
    page.wait_for_url("**open=all*")
    settled(page)
    assert "▸ nodeB: 20 ranks" in drawing_of(page).texts
    page.keyboard.press("o")
    page.wait_for_url("**open=all%2CnodeA*")
    settled(page)
    assert "rank 39" in drawing_of(page).texts
    page.keyboard.press("o")
    page.wait_for_url(lambda url: "open=" not in url)


def test_lanes_and_events_of_tensors_drop_what_all_names_begin_with(shown):
    page = shown(f"&step=12{TRACED}&lanes=tensors")
    texts = drawing_of(page).texts
    assert {"layer0.weight", "layer7.weight"} <= set(texts)
    assert any(text.startswith("8 tensors") for text in texts)
    # The names of the lanes are not said again in them.
    assert any(text.startswith("NEG") for text in texts)
    assert not [text for text in texts if text.startswith("allreduce")]
    # In a lane of all tensors, events are named by what differs.
    texts = drawing_of(shown(f"&step=12{TRACED}")).texts
    assert any(text.startswith("…") and text.endswith(".weight") for text in texts)


def test_the_overview_moves_its_window_and_its_strip_chooses_a_segment(shown):
    length = shown().evaluate(WINDOW)[1]
    page = shown(f"&step=8{TRACED}")
    before = page.evaluate(WINDOW)
    box = page.evaluate(BOX)
    top = page.evaluate("document.querySelector('.timeline-top').getBoundingClientRect().y")

    def place(ns):
        return box["x"] + GUTTER + ns / length * (box["width"] - GUTTER - 6)

    middle = sum(before) / 2
    drag(page, (place(middle), top + 12), (place(middle) - 60, top + 12))
    page.wait_for_url(lambda url: "step=" not in url)
    after = settled(page)
    assert after[1] - after[0] == before[1] - before[0]
    assert place(sum(after) / 2) == pytest.approx(place(middle) - 60, abs=1.5)
    page.mouse.click(place(100e6), top + 33)
    page.wait_for_url("**segment=mnist-torch-none-average*")
    assert settled(page) == [0, pytest.approx(1.1 * 22 * 9e6, rel=0.01)]


def test_a_mark_is_drawn_with_its_letter(shown):
    page = shown(f"&step=8{TRACED}")
    page.mouse.move(*at(page, 0.25))
    page.keyboard.press("m")
    page.wait_for_url("**marks=*")
    first, last = page.evaluate(WINDOW)
    assert int(query_of(page)["marks"]) == pytest.approx(first + 0.25 * (last - first), rel=1e-3)
    assert "A" in drawing_of(page).texts


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_theme_and_width_is_legible(browser, shown, width, dark):
    page = browser.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light")
    try:
        shown(f"&step=12{TRACED}&find=layer3&hit=0&sel_from=1000000&sel_to=1800000000")
        page.locator(".timeline-range").wait_for()
        assert serious_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        paper = page.evaluate(
            "getComputedStyle(document.querySelector('.timeline-stage')).backgroundColor"
        )
        assert (paper == "rgb(27, 27, 27)") == dark
        # On the axis.
        times = [text for text in drawing_of(page).texts if re.fullmatch(r"\+[\d,.]+ ms", text)]
        assert len(times) >= 2
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
    wait_until(page, "() => window.innerWidth === 1280")
