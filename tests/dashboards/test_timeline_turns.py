"""hvdprof's turns on the timeline of a recorded run: narrow, named, and true in all times."""

import re

import pytest

from hvdprof.api import load_run
from hvdprof.dashboards.run_store import RunStore
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from tests.builders.browser import watched_page
from tests.builders.recorded_runs import unpacked
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
)
from tests.builders.timeline_page import whole as of_whole

pytestmark = pytest.mark.browser

PASS = "03-np2-throughput-r1"
ROOM = "() => document.querySelector('.timeline-lanes').clientWidth"
TIP = "() => document.querySelector('.timeline-tip').textContent"
SAME_AS_PLAIN = """() => {
    const T = window.hvdprofTimeline;
    const [first, last, left, right] = [1234567, 987654321, 168, 1274];
    const scale = T.scaleOf(first, last, left, right, T.axisOf([]));
    for (let at = first; at < last; at += 9876543) {
        const x = left + (at - first) / (last - first) * (right - left);
        const ns = first + (x - left) / (right - left) * (last - first);
        if (scale.x(at) !== x || scale.at(at) !== x || scale.ns(x) !== ns) { return false; }
    }
    return scale.axis.text(first, last) === T.lengthText(last - first);
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unpacked("bench-sweep", tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="module")
def axis(folder):
    return pass_lanes(load_run(folder), PASS).axis


@pytest.fixture(scope="module")
def browser(folder):
    with served(RunStore([folder])) as address, watched_page(address) as watched:
        watched.address = f"{address}/timeline"
        yield watched


@pytest.fixture
def shown(browser):
    """A function that opens the pass with turns, and waits until it is drawn."""

    def open_at(query="", pass_id=PASS):
        browser.page.goto("about:blank")
        address = f"{browser.address}?run=bench-sweep&pass={pass_id}{of_whole(query)}"
        browser.page.goto(address)
        settled(browser.page)
        return browser.page

    yield open_at
    assert browser.complaints == []
    assert browser.foreign_requests == []


@pytest.mark.parametrize(("width", "gutter", "dark"), [(1280, GUTTER, False), (390, 86, True)])
def test_a_turn_is_narrow_and_says_its_true_length(browser, shown, axis, width, gutter, dark):
    browser.resize(width, dark=dark)
    page = shown()
    begin, end, narrow = axis.turns[0]
    assert end - begin > 3 * narrow
    drawing = drawing_of(page)
    room = page.evaluate(ROOM) - gutter - 6
    pixels = narrow / axis.length_ns * room
    # Its length alone, where two ranks are too low for more; nothing in a few pixels.
    assert ("170 ms" in drawing.texts) == (width == 1280)
    turns = [box.x for box in drawing.boxes if box.width == pytest.approx(pixels, abs=0.1)]
    left = gutter + begin / axis.length_ns * room
    # In the overview, on the axis and on the lanes.
    assert len([x for x in turns if x == pytest.approx(left, abs=0.1)]) >= 3
    box = page.evaluate(BOX)
    page.mouse.move(box["x"] + left + pixels / 2, box["y"] + 30)
    assert page.evaluate(TIP).startswith("hvdprof's turn: other launches run for 170 ms")
    caption = page.locator("#timeline-caption").inner_text()
    assert "1,715 ms in view, 472 ms of it hvdprof's turns." in caption
    browser.resize(1280, dark=False)


def test_a_phone_and_the_keyboard_reach_the_name_of_each_turn(browser, shown, axis):
    browser.resize(390, dark=False)
    page = shown()
    chip = page.get_by_role("button", name="hvdprof's turns")
    assert "472 ms" in chip.inner_text()
    for begin, end, _ in axis.turns[:2]:
        chip.focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
        first, last = settled(page)
        assert first < begin < end < last
        assert any(
            text.endswith(f"{(end - begin) / 1e6:.0f} ms") for text in drawing_of(page).texts
        )
    browser.resize(1280, dark=False)


def places(page, axis):
    return axis.window(*page.evaluate(WINDOW))


def test_moves_are_even_on_the_axis_and_times_stay_true(shown, axis):
    begin, end, width = axis.turns[0]
    page = shown(f"&from={begin - 20_000_000}&to={end + 20_000_000}")
    length = width + 40_000_000
    low, high = places(page, axis)
    assert high - low == length
    page.keyboard.press("d")
    page.wait_for_timeout(50)
    settled(page)
    assert places(page, axis) == pytest.approx((low + length / 4, high + length / 4), abs=100)
    page.keyboard.press("a")
    page.wait_for_timeout(50)
    assert settled(page) == pytest.approx([begin - 20_000_000, end + 20_000_000], abs=1_000)
    page.locator(".timeline-lanes").hover(position={"x": 300, "y": 10})
    page.keyboard.press("w")
    page.wait_for_timeout(50)
    settled(page)
    after = places(page, axis)
    assert after[1] - after[0] == pytest.approx(length / 1.25**2, abs=100)
    # Down to a microsecond, in the turn and beside it.
    for at_ns in (begin - 5_000_000, (begin + end) // 2):
        page = shown(f"&from={at_ns}&to={at_ns + 1_000}")
        assert page.evaluate(WINDOW) == [at_ns, at_ns + 1_000]
        page.keyboard.press("w")
        page.wait_for_timeout(50)
        first, last = settled(page)
        assert first - 100_000 < at_ns < last + 100_000
        assert last - first >= 1_000


def test_ticks_leave_turns_out_and_count_true_times(shown, axis):
    begin, end, _ = axis.turns[1]
    drawing = drawing_of(shown(f"&from={begin - 15_000_000}&to={end + 15_000_000}"))
    ticks = [re.fullmatch(r"\+([\d,.]+) ms", text) for text in drawing.texts]
    (base,) = [found[1] for text in drawing.texts if (found := re.fullmatch("from (.*) ms", text))]
    times = [1e6 * (float(base) + float(tick[1].replace(",", ""))) for tick in ticks if tick]
    assert len([time for time in times if begin - 15_000_000 <= time <= begin]) >= 1
    assert len([time for time in times if end <= time <= end + 15_000_000]) >= 1
    assert [time for time in times if begin < time < end] == []


def test_a_selection_across_a_turn_says_what_it_holds(shown, axis):
    begin, end, _ = axis.turns[0]
    page = shown(f"&from={begin - 20_000_000}&to={end + 20_000_000}")
    page.keyboard.press("r")
    page.wait_for_url("**sel_to=*")
    page.wait_for_selector("#timeline-range td")
    assert query_of(page)["sel_from"] == str(begin - 20_000_000)
    texts = page.locator("#timeline-range .timeline-facts").inner_text()
    assert "210 ms, 170 ms of it hvdprof's turns" in texts
    assert "210 ms, 170 ms of it hvdprof's turns" in drawing_of(page).texts
    page.keyboard.press("f")
    page.wait_for_timeout(50)
    assert settled(page) == [begin - 20_000_000, end + 20_000_000]


def test_keys_and_search_go_over_a_turn(shown, axis):
    page = shown("&step=17")
    for _ in range(8):
        page.keyboard.press("n")
        page.wait_for_timeout(250)
        first, last = settled(page)
        low, high = axis.window(first, last)
        # Three steps of the job, however long the turn beside them.
        assert high - low < 90_000_000
    page.keyboard.press("/")
    page.keyboard.type("step 10")
    page.keyboard.press("Enter")
    page.wait_for_url("**step=10*")
    page.wait_for_timeout(100)
    first, last = settled(page)
    assert first < axis.turns[0][1] < last
    assert "10 warm-up" in " ".join(drawing_of(page).texts)


def test_a_drag_moves_by_what_it_covers(shown, axis):
    begin = axis.turns[0][0]
    page = shown(f"&from={begin - 30_000_000}&to={begin - 10_000_000}")
    low, high = places(page, axis)
    drag(page, at(page, 0.9), at(page, 0.4))
    page.wait_for_url(lambda url: f"from={begin - 30_000_000}" not in url)
    settled(page)
    moved = places(page, axis)
    assert moved[1] - moved[0] == pytest.approx(high - low, abs=50)
    assert moved[0] - low == pytest.approx(10_000_000, abs=300_000)


def test_a_pass_without_turns_is_drawn_as_on_a_plain_axis(shown):
    page = shown(pass_id="04-np2-trace-r1")
    assert page.evaluate(SAME_AS_PLAIN)
    assert "turn" not in page.locator("#timeline-caption").inner_text()
