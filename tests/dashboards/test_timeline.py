"""The page of the timeline and its answers; its gestures are in ``test_timeline_tool.py``."""

import pytest

from hvdprof.dashboards import timeline_answers
from hvdprof.dashboards.access import Access
from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.timeline_answers import chosen_pass
from hvdprof.dashboards.view import (
    View,
    Window,
    fitted,
    lane_kind_of,
    row_choice_of,
    selection_of,
    window_of,
)
from hvdprof.errors import UnreadableInputError
from hvdprof.figures.timeline.event_details import timeline_passes
from hvdprof.figures.timeline.timeline_lanes import LaneKind, pass_lanes
from hvdprof.model.tables.run_tables import EVENTS, SEGMENTS, STEPS
from tests.builders.browser import serious_violations, wait_until, watched_page
from tests.builders.declared_rows import declared_rows
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.served_dashboard import served
from tests.builders.timeline_text import timeline_text
from tests.builders.traced_run import MS, PASS_ID, START_NS, part_rows, step_row, traced_run

IS_EXACT = """() => {
    const tool = document.getElementById('timeline');
    return Boolean(tool && tool.dataset.exact === 'true');
}"""


def lanes():
    return pass_lanes(traced_run(), PASS_ID)


def view(**values):
    return View("/timeline", {"run": "quick", **values})


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (100, 200, (100, 1_100)),
        (100, 2_100, (100, 2_100)),
        (-50, 5_000, (0, 5_050)),
        (9_000, 12_000, (7_000, 10_000)),
        (-90, 99_990, (0, 10_000)),
    ],
)
def test_a_window_is_shifted_into_the_pass(first, last, expected):
    window = fitted(first, last, 10_000)
    assert (window.first_ns, window.last_ns) == expected


@pytest.mark.heavy
def test_the_address_is_the_window():
    asked = window_of(view(**{"from": "1000000", "to": "2000000"}), lanes())
    assert asked == Window(1 * MS, 2 * MS)
    whole = lanes().length_ns
    assert window_of(view(), lanes()) == Window(0, whole)
    assert window_of(view(**{"from": "9", "to": "x"}), lanes()) == Window(0, whole)
    assert window_of(view(step="99"), lanes()) == Window(0, whole)
    opening = Window(1 * MS, 2 * MS)
    assert window_of(view(), lanes(), opening) == opening
    assert window_of(view(all="1"), lanes(), opening) == Window(0, whole)


def test_a_segment_and_its_step_are_windows():
    rows = [step_row(0, step) for step in range(3)] + [
        step_row(0, step, segment="later", start_ns=START_NS + (200 + 20 * step) * MS)
        for step in range(3)
    ]
    late = part_rows(0, 1)[0] | {"start_ns": START_NS + 300 * MS}
    found = pass_lanes(
        traced_run(steps=STEPS.frame(rows), events=EVENTS.frame([*part_rows(0, 1), late])), PASS_ID
    )
    # The first event of the pass is 20 ms after the first step.
    assert window_of(view(step="2"), found) == Window(19 * MS, 41 * MS)
    assert window_of(view(step="2", segment="later"), found) == Window(219 * MS, 241 * MS)
    assert window_of(view(segment="later"), found) == Window(177 * MS, 243 * MS)
    assert window_of(view(segment="gone"), found) == Window(0, found.length_ns)


@pytest.mark.parametrize(
    "values",
    [{"sel_from": "1"}, {"sel_from": "2", "sel_to": "1"}, {"sel_from": "x", "sel_to": "1"}],
)
def test_nothing_is_selected_without_a_range(values):
    assert selection_of(view(**values)) is None


def test_the_address_chooses_rows():
    found = row_choice_of(
        view(tensor="fc", ranks="0-3", open="all,node1", pins="2,x,-1", hide="forward,nothing")
    )
    assert found.tensor == "fc"
    assert found.opened == {"all", "node1"}
    assert found.pins == (2,)
    assert found.hidden == {"forward"}
    assert lane_kind_of(view(tensor="fc")) is LaneKind.TENSORS
    assert lane_kind_of(view()) is LaneKind.EXECUTIONS


@pytest.fixture
def run_folder(tmp_path):
    spec = PassSpec(mode="trace", size=2, segments=(SegmentSpec(timeline=True),))
    return write_run(tmp_path / "quick", [spec])


@pytest.mark.browser
def test_a_phone_shows_the_timeline_and_the_link_brings_the_event_back(run_folder):
    with served(RunStore([run_folder])) as address, watched_page(address, width=390) as watched:
        page = watched.page
        page.goto(f"{address}/timeline?run=quick&step=8&event=0")
        wait_until(page, IS_EXACT)
        caption = page.inner_text("#timeline-caption")
        assert "events, each drawn" in caption
        page.locator("#timeline-details").get_by_text("duration").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert serious_violations(page) == []
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_url("**from=*")
        wait_until(page, IS_EXACT)
        link = page.url
        zoomed = page.inner_text("#timeline-caption")
        assert zoomed != caption
        page.goto("about:blank")
        page.goto(link)
        wait_until(page, IS_EXACT)
        assert page.inner_text("#timeline-caption") == zoomed
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.mark.browser
def test_another_pass_opens_anew_at_its_steady_steps(tmp_path):
    segments = (SegmentSpec(timeline=True),)
    folder = write_run(
        tmp_path / "two",
        [
            PassSpec(mode="trace", size=2, segments=segments),
            PassSpec(mode="throughput", size=2, segments=(SegmentSpec(),)),
        ],
    )
    with served(RunStore([folder])) as address, watched_page(address) as watched:
        page = watched.page
        page.goto(f"{address}/timeline?run=two&step=8")
        wait_until(page, IS_EXACT)
        page.get_by_role("textbox", name="Pass").click()
        page.get_by_role("option").filter(has_text="throughput").click()
        page.wait_for_url(lambda url: "pass=" in url and "step=" not in url)
        page.get_by_text("No Horovod timeline in this pass").wait_for()
        # The text comes with the answer of the server, the window once the tool has drawn it.
        wait_until(page, IS_EXACT)
        asked = "fetch('/timeline-data/view?run=two&pass=02-np2-throughput-r1')"
        first = page.evaluate(f"{asked}.then((a) => a.json()).then((found) => found.window[0])")
        assert first > 0
        shown = "first => document.getElementById('timeline').dataset.first === String(first)"
        wait_until(page, shown, first)
        assert watched.complaints == []


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
        wait_until(page, IS_EXACT)
        assert "events" in page.inner_text("#timeline-caption")
        # A timeline has no phases of ranks, so nothing offers to hide them.
        shown = page.locator(".timeline-legend button").all_inner_texts()
        assert "transfer" in shown
        assert not {"data", "forward", "blocked"} & set(shown)
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


@pytest.fixture
def client(run_folder):
    return create_app(RunStore([run_folder])).server.test_client()


@pytest.mark.heavy
def test_the_server_answers_what_the_browser_asks(client):
    found = client.get("/timeline-data/view?run=quick&step=8").json
    assert found["window"][0] > found["from"] >= 0
    assert [row["name"] for row in found["rows"]][:2] == ["rank 0", "rank 1"]
    assert client.get("/timeline-data/details?run=quick&event=0").json["title"] == "data"
    chosen = "run=quick&lane=0&at=100000000"
    assert client.get(f"/timeline-data/details?{chosen}").json["facts"][0][0] == "lane"
    assert client.get("/timeline-data/range?run=quick&sel_from=0&sel_to=99000000").json["rows"]
    assert client.get("/timeline-data/hits?run=quick&steps=longest").json["number"] > 5
    assert client.get("/timeline-data/hits?run=quick&find=forward").json["hits"][0]["place"]


@pytest.mark.heavy
def test_the_passes_of_a_run_are_listed_once(client, monkeypatch):
    calls = []

    def counted(run):
        calls.append(run)
        return timeline_passes(run)

    monkeypatch.setattr(timeline_answers, "timeline_passes", counted)
    for step in (8, 9, 10):
        client.get(f"/timeline-data/view?run=quick&step={step}")
    assert len(calls) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["details", "range", "hits"])
def test_nothing_is_answered_where_nothing_is_asked(client, what):
    assert client.get(f"/timeline-data/{what}?run=quick&event=99999999&steps=none").json == {}


@pytest.mark.parametrize("address", ["nothing?run=quick", "view?run=gone", "view"])
def test_what_is_not_there_is_not_found(client, address):
    answer = client.get(f"/timeline-data/{address}")
    assert answer.status_code == 404
    assert answer.json["problem"]


def test_a_run_that_cannot_be_read_is_said(tmp_path):
    def refuse(folder):
        raise UnreadableInputError("It is damaged.", hint="Run it again.")

    client = create_app(RunStore([tmp_path], read=refuse)).server.test_client()
    answer = client.get(f"/timeline-data/view?run={tmp_path.name}")
    assert answer.status_code == 409
    assert answer.json == {"problem": "It is damaged.", "hint": "Run it again."}


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["view", "details", "range", "hits"])
def test_a_run_without_passes_is_said(tmp_path, what):
    write_run(tmp_path / "empty", [])
    client = create_app(RunStore([tmp_path / "empty"])).server.test_client()
    answer = client.get(f"/timeline-data/{what}?run=empty")
    assert answer.status_code == 409
    assert "no pass with events" in answer.json["problem"]


def test_the_timeline_asks_with_the_token(run_folder):
    client = create_app(RunStore([run_folder]), access=Access()).server.test_client()
    assert client.get("/timeline-data/view?run=quick").status_code == 401


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "p1"),
        ({"np": "2"}, "p2"),
        ({"np": "2", "toggles": "fp16"}, "p3"),
        ({"model": "mnist"}, "p4"),
        ({"model": "mnist", "np": "4", "toggles": "fp16"}, "p4"),
        ({"pass": "p3", "np": "4"}, "p3"),
        ({"launch": "p3|a segment", "np": "4"}, "p3"),
        ({"model": "../etc", "np": "99"}, "p1"),
    ],
)
def test_the_pass_is_the_first_one_with_the_cell_in_the_address(values, expected):
    cells = (
        ("p1", "resnet18", 4, "none"),
        ("p2", "resnet18", 2, "none"),
        ("p3", "resnet18", 2, "none"),
        ("p3", "resnet18", 2, "fp16"),
        ("p4", "mnist", 2, "none"),
    )
    segments = declared_rows(
        SEGMENTS,
        *(
            {
                "pass_id": pass_id,
                "engine": "horovod",
                "model": model,
                "size": size,
                "compression": compression,
                "reduction": "average",
            }
            for pass_id, model, size, compression in cells
        ),
    )
    passes = {f"p{number}": f"p{number} (trace)" for number in range(1, 5)}
    assert chosen_pass(passes, segments, View("/timeline", values)) == expected
    assert chosen_pass({"file.json": "file.json"}, SEGMENTS.empty(), View("/", values)) == (
        "file.json"
    )
