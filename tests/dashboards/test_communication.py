import pytest

from dashboards.pages import communication
from tests.builders.served_dashboard import (
    check_in_browser,
    empty_run,
    lone_timeline,
    measured_run,
    page_text,
)

NOTHING = "No collective is recorded here"


def test_a_traced_run_tells_size_fusion_and_overlap(tmp_path):
    text = page_text(communication, measured_run(tmp_path / "run"))
    for heading in ("Size against time", "Bus bandwidth", "Messages a step", "Overlap with work"):
        assert f'"{heading}"' in text
    assert "covered by the rank's own work" in text
    assert "HOROVOD_TIMELINE_MARK_CYCLES=1" in text


def test_a_lone_timeline_has_no_overlap_and_says_why(tmp_path):
    text = page_text(communication, lone_timeline(tmp_path))
    assert "Size against time" in text
    assert "Overlap needs recordings and a timeline" in text


def test_without_data_it_says_how_to_get_them(tmp_path):
    text = page_text(communication, empty_run(tmp_path / "run"))
    assert NOTHING in text
    assert "HOROVOD_TIMELINE=timeline.json" in text


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(tmp_path, width):
    expected = {
        "measured": "Size against time",
        "empty": NOTHING,
        "timeline": "Size against time",
    }
    check_in_browser(communication, tmp_path, width, expected)
