from urllib.parse import parse_qs, urlsplit

import pytest

from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.pages import timeline
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.timeline_window import (
    Window,
    dragged,
    drawn_span,
    fitted,
    measured_of,
    moved,
    window_of,
)
from hvdprof.dashboards.view import View
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from tests.builders.browser import wait_until, watched_page
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.served_dashboard import served
from tests.builders.timeline_text import timeline_text
from tests.builders.traced_run import MS, PASS_ID, traced_run

MIDDLE_OF_A_WHOLE_BAR = """() => {
    document.querySelector('.timeline').scrollIntoView({block: 'center'});
    const plot = document.querySelector('.timeline .nsewdrag').getBoundingClientRect();
    const boxes = [...document.querySelectorAll('.timeline .barlayer .point path')]
        .map(path => path.getBoundingClientRect())
        .filter(box => box.left >= plot.left && box.right <= plot.right)
        .sort((one, other) => other.width - one.width);
    return [boxes[0].left + boxes[0].width / 2, boxes[0].top + boxes[0].height / 2];
}"""

AXIS_BEGINS_AT = """ms => Math.abs(
    document.querySelector('.timeline .js-plotly-plot')._fullLayout.xaxis.range[0] - ms) < 1e-6"""
SOMETHING_IS_POINTED_AT = (
    "(document.querySelector('.timeline .js-plotly-plot')._hoverdata || []).length > 0"
)


def pointed_at_bar(page):
    """The middle of a bar, which the mouse is moved to until the figure has noticed."""
    for attempt in range(60):
        x, y = page.evaluate(MIDDLE_OF_A_WHOLE_BAR)
        # A figure that was drawn anew meanwhile notices only what moves.
        page.mouse.move(x, y + attempt % 2)
        page.wait_for_timeout(500)
        if page.evaluate(SOMETHING_IS_POINTED_AT):
            break
    return x, y


def lanes():
    return pass_lanes(traced_run(), PASS_ID)


def view(**values):
    return View("/timeline", {"run": "quick", **values})


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (10, 20, (10, 110)),
        (10, 210, (10, 210)),
        (-5, 500, (0, 505)),
        (900, 1_200, (700, 1_000)),
        (-9, 9_999, (0, 1_000)),
    ],
)
def test_a_window_is_shifted_into_the_pass(first, last, expected):
    window = fitted(first, last, 1_000)
    assert (window.first_ns, window.last_ns) == expected


@pytest.mark.parametrize(
    ("relayout", "expected"),
    [
        ({"xaxis.range[0]": 0.001, "xaxis.range[1]": 0.002}, Window(1_000, 2_000)),
        ({"xaxis.range": [0.002, 0.001]}, Window(1_000, 2_000)),
        ({"xaxis.autorange": True}, Window(0, 5_000)),
        ({"autosize": True}, None),
        ({"xaxis.range[0]": "x", "xaxis.range[1]": 2}, None),
        ({"xaxis.range[0]": float("inf"), "xaxis.range[1]": 2}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_gesture_becomes_a_window(relayout, expected):
    assert dragged(relayout, 5_000) == expected


def test_buttons_move_by_half_a_window_and_zoom_about_its_middle():
    window = Window(4_000, 6_000)
    assert moved(window, "left", 10_000) == Window(3_000, 5_000)
    assert moved(window, "right", 10_000) == Window(5_000, 7_000)
    assert moved(window, "in", 10_000) == Window(4_500, 5_500)
    assert moved(window, "out", 10_000) == Window(3_000, 7_000)
    assert moved(window, "whole", 10_000) == Window(0, 10_000)


def test_the_address_is_the_window():
    asked = window_of(view(**{"from": "1000000", "to": "2000000"}), lanes())
    assert asked == Window(1 * MS, 2 * MS)
    whole = lanes().length_ns
    assert window_of(view(), lanes()) == Window(0, whole)
    assert window_of(view(**{"from": "9", "to": "x"}), lanes()) == Window(0, whole)
    assert window_of(view(step="99"), lanes()) == Window(0, whole)


def test_a_click_on_an_event_or_a_bin_goes_into_the_address():
    event = timeline.clicked(view(), lanes(), {"points": [{"customdata": 7, "x": 1.0, "y": 0}]})
    assert event.whole("event") == 7
    place = timeline.clicked(event, lanes(), {"points": [{"x": 2.5, "y": 1}]})
    assert (place.whole("event"), place.whole("lane"), place.whole("at")) == (None, 1, 2_500_000)
    mark = timeline.clicked(view(), lanes(), {"points": [{"x": 2.5, "y": 1.46}]})
    assert mark.whole("lane") == 1


@pytest.mark.parametrize(
    "click", [{}, {"points": 1}, {"points": [None]}, {"points": [{"x": 1, "y": 99}]}]
)
def test_what_is_no_click_changes_nothing(click):
    assert timeline.clicked(view(), lanes(), click) == view()


@pytest.mark.parametrize(
    ("relayout", "expected"),
    [
        ({"shapes": [{"x0": 9, "x1": 9}, {"x0": 0.002, "x1": 0.001}]}, Window(1_000, 2_000)),
        ({"shapes": [{"x0": "a", "x1": 1}]}, None),
        ({"shapes": [{"x0": float("nan"), "x1": 1}]}, None),
        ({"shapes": [1]}, None),
        ({"shapes": []}, None),
        ({"xaxis.range[0]": 1, "xaxis.range[1]": 2}, None),
        (None, None),
    ],
)
def test_a_drawn_span_of_time_is_read(relayout, expected):
    assert drawn_span(relayout) == expected


def test_what_was_measured_is_in_the_address_and_in_the_figure():
    asked = view(drag="measure", measure_from="1000000", measure_to="3500000")
    assert measured_of(asked) == Window(1 * MS, 3_500_000)
    figure = timeline.drawing(lanes(), asked).figure
    assert figure.layout.dragmode == "drawrect"
    assert [(shape.x0, shape.x1) for shape in figure.layout.shapes] == [(1.0, 3.5)]
    assert "2.50 ms" in figure.layout.annotations[-1].text


@pytest.mark.parametrize(
    "values",
    [
        {"measure_from": "1", "measure_to": "2"},
        {"drag": "measure", "measure_from": "2", "measure_to": "1"},
        {"drag": "measure", "measure_from": "x", "measure_to": "1"},
    ],
)
def test_nothing_is_measured_without_a_stretch(values):
    assert measured_of(view(**values)) is None
    assert not timeline.drawing(lanes(), view(**values)).figure.layout.shapes


@pytest.fixture
def run_folder(tmp_path):
    spec = PassSpec(mode="trace", size=2, segments=(SegmentSpec(timeline=True),))
    return write_run(tmp_path / "quick", [spec])


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_one_can_zoom_click_and_pass_the_link_on(run_folder, width):
    runs = RunStore([run_folder])
    with served(runs) as address, watched_page(address, width=width) as watched:
        page = watched.page
        page.goto(f"{address}/timeline")
        page.wait_for_selector(".timeline .barlayer path", state="attached", timeout=60_000)
        page.wait_for_load_state("networkidle")
        caption = page.inner_text("#timeline-caption")
        assert "events, each drawn" in caption
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_url("**from=*", timeout=60_000)
        wait_until(
            page,
            "before => document.querySelector('#timeline-caption').innerText !== before",
            arg=caption,
        )
        zoomed = page.inner_text("#timeline-caption")
        begin_ns = int(parse_qs(urlsplit(page.url).query)["from"][0])
        wait_until(page, AXIS_BEGINS_AT, arg=begin_ns / 1e6)
        page.wait_for_load_state("networkidle")
        page.mouse.click(*pointed_at_bar(page))
        page.wait_for_url("**event=*", timeout=60_000)
        wait_until(
            page, "document.querySelector('#timeline-details').innerText.includes('duration')"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        page.wait_for_selector(".timeline .barlayer path", state="attached", timeout=60_000)
        assert page.inner_text("#timeline-caption") == zoomed
        assert "duration" in page.inner_text("#timeline-details")
        page.get_by_role("button", name="Show the whole pass").click()
        page.wait_for_url(lambda url: "from=" not in url)
        page.go_back()
        page.wait_for_url(lambda url: "from=" in url)
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.mark.browser
def test_a_standalone_timeline_is_shown(tmp_path):
    file = tmp_path / "timeline.json"
    file.write_text(timeline_text(SegmentSpec(timeline=True), 2, 0))
    with served(RunStore([file])) as address, watched_page(address) as watched:
        page = watched.page
        page.goto(address)
        page.wait_for_selector("h2", timeout=60_000)
        assert "timeline.json" in page.inner_text("main")
        page.get_by_role("link", name="Timeline").click()
        page.wait_for_selector(".timeline .barlayer path", state="attached", timeout=60_000)
        assert "executions" in page.text_content(".timeline .yaxislayer-above")
        assert watched.complaints == []


@pytest.mark.browser
def test_a_run_without_recordings_says_how_to_get_them(tmp_path):
    runs = RunStore([write_run(tmp_path / "empty", [])])
    with served(runs) as address, watched_page(address) as watched:
        page = watched.page
        page.goto(f"{address}/timeline")
        page.wait_for_selector(".empty", timeout=60_000)
        assert "hvdprof bench --preset quick" in page.inner_text(".empty")
        assert watched.complaints == []


def test_every_callback_of_the_page_is_there(tmp_path):
    app = create_app(RunStore([tmp_path]))
    assert any("timeline-figure.figure" in name for name in app.callback_map)
