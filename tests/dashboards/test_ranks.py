import pytest

from hvdprof.dashboards.pages import ranks
from hvdprof.dashboards.run_store import RunStore
from tests.builders.analysis import with_a_straggler
from tests.builders.browser import serious_violations, show, turn, wait_until, watched_page
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.served_dashboard import (
    check_in_browser,
    empty_run,
    measured_run,
    page_text,
    served,
    standalone_timeline,
)

pytestmark = pytest.mark.slow

NOTHING = "No wait data in this run"
HEIGHT = "document.querySelector('main').getBoundingClientRect().height"


def test_a_measured_run_shows_stragglers_parts_and_links_to_the_timeline(tmp_path):
    text = page_text(ranks, measured_run(tmp_path / "run"))
    for heading in (
        "Lateness of each rank, step by step",
        "Cost of each rank by phase",
        "Step time distribution",
        "Steps of rank 1: highest cost",
        "Steps of rank 0: the other rank",
        "Longest stalls",
        "Caused wait",
        "Stragglers",
        "Warm-up and drift",
        "All parts",
    ):
        assert f'"{heading}"' in text
    assert "persistent" in text
    # Two ranks mirror each other.
    assert "Wait and caused wait" not in text
    assert "/timeline?run=run&pass=03-np2-throughput-r1" in text
    assert "&from=" in text


def test_the_distribution_holds_all_launches_of_the_cell(tmp_path):
    text = page_text(ranks, measured_run(tmp_path / "run"))
    assert '"name": "03-np2-throughput-r1"' in text
    assert '"name": "07-np2-throughput-r2"' in text
    assert '"name": "04-np2-throughput-r1"' not in text


def test_another_launch_can_be_asked_for_and_a_wrong_one_is_ignored(tmp_path):
    run = measured_run(tmp_path / "run")
    fp16 = page_text(ranks, run, launch="04-np2-throughput-r1|mnist-horovod-fp16-average")
    assert "pass=04-np2-throughput-r1&" in fp16
    wrong = page_text(ranks, run, launch="../../etc|x")
    assert "pass=03-np2-throughput-r1&" in wrong


def test_the_pass_of_the_timeline_is_the_launch_here(tmp_path):
    run = measured_run(tmp_path / "run")

    assert "pass=04-np2-throughput-r1&" in page_text(ranks, run, **{"pass": "04-np2-throughput-r1"})


def test_one_rank_is_late_for_no_other_and_shows_its_steps(tmp_path):
    run = measured_run(tmp_path / "run")
    text = page_text(ranks, run, launch="02-np1-throughput-r1|mnist-horovod-none-average")
    assert '"Step time, step by step"' in text
    assert '"Steps of rank 0"' in text
    assert "Lateness of each rank" not in text
    assert "Cost of each rank" not in text


def test_ranks_alike_are_drawn_once(tmp_path):
    segment = SegmentSpec(parts_ms=typical_parts(10.0, 2.0))
    text = page_text(ranks, write_run(tmp_path / "run", [PassSpec(size=2, segments=[segment])]))
    assert '"Steps: mean of 2 ranks, alike within 5 % of the step"' in text
    assert "Steps of rank" not in text


def test_the_choice_of_steps_sets_what_is_below_it_and_stays_within_the_launch(tmp_path):
    run = write_run(tmp_path / "run", with_a_straggler(4, rank=2))
    some = page_text(ranks, run, first=20, last=29)
    assert "10 steady steps." in some
    assert '"Cost of each rank by phase, steps 20 to 29"' in some
    assert '"Step time distribution, steps 20 to 29"' in some
    assert "3.0 ms" in some
    # The whole launch is no choice.
    beyond = page_text(ranks, run, first=-5, last=10_000)
    assert '"Cost of each rank by phase"' in beyond
    warmup = page_text(ranks, run, first=0, last=0)
    assert "0 steady steps." in warmup
    assert "Cost of each rank" not in warmup


def test_a_standalone_timeline_shows_its_negotiations_and_inferred_steps(tmp_path):
    text = page_text(ranks, standalone_timeline(tmp_path))
    assert "Negotiation time of tensors" in text
    assert "Steps inferred from the timeline" in text
    assert "Lateness of each rank" not in text


def test_without_data_it_says_how_to_get_them(tmp_path):
    text = page_text(ranks, empty_run(tmp_path / "run"))
    assert NOTHING in text
    assert "hvdprof bench --preset quick" in text


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {
        "measured": "Lateness of each rank, step by step",
        "empty": NOTHING,
        "timeline": "Negotiation time of tensors",
    }
    check_in_browser(ranks, tmp_path, expected)


@pytest.mark.browser
def test_steps_are_chosen_by_a_drag_and_by_keys_alone(tmp_path):
    runs = RunStore([write_run(tmp_path / "run", with_a_straggler(4, rank=2))])
    with served(runs) as address, watched_page(address, width=1440) as watched:
        page = watched.page
        show(watched, f"{address}/stalls?run=run")
        page.locator(".lateness .heatmaplayer image").wait_for()
        assert page.evaluate(HEIGHT) <= 1_600
        drag(page, 0.25, 0.5)
        page.wait_for_url("**first=*last=*")
        heading = page.get_by_role("heading", name="Cost of each rank by phase, steps")
        heading.wait_for()
        first = int(page.get_by_label("Steps from").input_value())
        assert 0 < first < int(page.get_by_label("to", exact=True).input_value()) < 62
        assert serious_violations(page) == []
        # The keyboard has the same choice, and keeps its place.
        page.get_by_label("Steps from").focus()
        page.keyboard.press("Control+a")
        page.keyboard.type("12")
        page.keyboard.press("Tab")
        page.wait_for_url("**first=12*")
        page.get_by_role("heading", name="steps 12 to").first.wait_for()
        page.get_by_role("button", name="All steps").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "first=" not in url)
        wait_until(page, "!document.querySelector('main').innerText.includes('steps 12 to')")
        page.go_back()
        page.get_by_role("heading", name="steps 12 to").first.wait_for()
        fold = page.locator("summary.folded").first
        fold.focus()
        page.keyboard.press("Enter")
        wait_until(page, f"{HEIGHT} > 1600")
        assert watched.complaints == []


@pytest.mark.browser
def test_two_sheets_hold_the_page_of_many_ranks_and_of_several_launches(tmp_path):
    paths = [write_run(tmp_path / f"np{n}", with_a_straggler(n, rank=5)) for n in (16, 64)]
    runs = RunStore([measured_run(tmp_path / "launches"), *paths])
    with served(runs) as address, watched_page(address, width=1440) as watched:
        for name in ("launches", "np16", "np64"):
            turn(watched, f"{address}/ranks?run={name}")
            watched.page.get_by_role("textbox", name="Launch").wait_for()
            watched.page.locator(".step-distribution .main-svg").first.wait_for()
            assert watched.page.evaluate("document.documentElement.scrollHeight") <= 1_600, name
        assert watched.complaints == []


def drag(page, begin, end):
    """Drag over the matrix, from one share of its width to another."""
    box = page.locator(".lateness .nsewdrag").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    for share in (0.3, 0.6, 1.0):
        page.mouse.move(box["x"] + (begin + share * (end - begin)) * box["width"], y)
    page.mouse.up()
