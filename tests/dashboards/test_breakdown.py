import pytest

from hvdprof.dashboards.pages import breakdown
from tests.builders.served_dashboard import (
    check_in_browser,
    empty_run,
    measured_run,
    page_text,
    standalone_timeline,
)

NOTHING = "No recorder files"


@pytest.mark.slow
def test_a_measured_run_shows_phases_warmup_and_drift(tmp_path):
    text = page_text(breakdown, measured_run(tmp_path / "run"))
    for heading in (
        "Mean step of each rank",
        "Steps of rank 1: longest own work",
        "Steps of rank 0: median own work",
        "Warm-up and drift",
        "Step time distribution",
        "All parts",
    ):
        assert f'"{heading}"' in text


@pytest.mark.slow
def test_the_distribution_holds_all_launches_of_the_cell(tmp_path):
    text = page_text(breakdown, measured_run(tmp_path / "run"))
    assert '"name": "03-np2-throughput-r1"' in text
    assert '"name": "07-np2-throughput-r2"' in text
    assert '"name": "04-np2-throughput-r1"' not in text


@pytest.mark.heavy
def test_a_standalone_timeline_shows_its_inferred_steps(tmp_path):
    text = page_text(breakdown, standalone_timeline(tmp_path))
    assert NOTHING in text
    assert "Steps inferred from the timeline" in text


@pytest.mark.heavy
def test_without_data_it_says_how_to_get_them(tmp_path):
    assert "hvdprof bench --preset quick" in page_text(breakdown, empty_run(tmp_path / "run"))


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {"measured": "Step time distribution", "empty": NOTHING, "timeline": NOTHING}
    check_in_browser(breakdown, tmp_path, expected)
