import pytest

from hvdprof.dashboards.pages import stalls
from hvdprof.dashboards.run_store import RunStore
from tests.builders.browser import show, watched_page
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


def test_a_measured_run_shows_stragglers_and_links_to_the_timeline(tmp_path):
    text = page_text(stalls, measured_run(tmp_path / "run"))
    for heading in (
        "Lateness of each rank, step by step",
        "Caused wait",
        "Stragglers",
        "Longest stalls",
    ):
        assert f'"{heading}"' in text
    assert "persistent" in text
    assert "rank 1" in text
    assert "/timeline?run=run&pass=03-np2-throughput-r1" in text
    assert "&from=" in text


def test_another_launch_can_be_asked_for_and_a_wrong_one_is_ignored(tmp_path):
    run = measured_run(tmp_path / "run")
    fp16 = page_text(stalls, run, launch="04-np2-throughput-r1|mnist-horovod-fp16-average")
    assert "pass=04-np2-throughput-r1&" in fp16
    wrong = page_text(stalls, run, launch="../../etc|x")
    assert "pass=03-np2-throughput-r1&" in wrong


def test_the_pass_of_the_timeline_is_the_launch_here(tmp_path):
    run = measured_run(tmp_path / "run")

    assert "pass=04-np2-throughput-r1&" in page_text(
        stalls, run, **{"pass": "04-np2-throughput-r1"}
    )


def test_a_launch_without_data_here_is_said_to_have_none(tmp_path):
    run = measured_run(tmp_path / "run")
    of_one_rank = "02-np1-throughput-r1|mnist-horovod-none-average"

    text = page_text(stalls, run, launch=of_one_rank)

    assert "No data here of mnist np=1, none average (02-np1-throughput-r1)." in text


def test_a_standalone_timeline_shows_its_negotiations(tmp_path):
    text = page_text(stalls, standalone_timeline(tmp_path))
    assert "Negotiation time of tensors" in text
    assert "Lateness of each rank" not in text


def test_without_data_it_says_how_to_get_them(tmp_path):
    text = page_text(stalls, empty_run(tmp_path / "run"))
    assert NOTHING in text
    assert "hvdprof bench --preset quick" in text


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {
        "measured": "Lateness of each rank, step by step",
        "empty": NOTHING,
        "timeline": "Negotiation time of tensors",
    }
    check_in_browser(stalls, tmp_path, expected)


@pytest.mark.browser
def test_both_pages_on_ranks_are_short_and_their_details_open_by_keys(tmp_path):
    runs = RunStore([measured_run(tmp_path / "run")])
    with served(runs) as address, watched_page(address, width=1440) as watched:
        page = watched.page
        for path in ("/stalls", "/breakdown"):
            show(watched, f"{address}{path}?run=run")
            page.locator(".js-plotly-plot .main-svg").first.wait_for()
            height = "document.querySelector('main').getBoundingClientRect().height"
            assert page.evaluate(height) <= 1_600, path
            fold = page.locator("summary.folded").first
            fold.focus()
            page.keyboard.press("Enter")
            page.wait_for_timeout(300)
            assert page.evaluate(height) > 1_600, path
        # Two ranks mirror each other.
        assert page.get_by_text("Wait and caused wait").count() == 0
        assert watched.complaints == []
