import pytest

from hvdprof.figures.overlap_figure import overlap_per_step
from hvdprof.figures.style.palette import COVER_COLOURS
from hvdprof.model.tables.collective_tables import OVERLAP


def overlap_row(rank, step, communication_ms, overlapped_ms, blocking_ms):
    return {
        "pass_id": "p",
        "segment": "s",
        "rank": rank,
        "step": step,
        "communication_ns": round(communication_ms * 1e6),
        "overlapped_ns": round(overlapped_ms * 1e6),
        "exposed_ns": round((communication_ms - overlapped_ms) * 1e6),
        "blocking_exposed_ns": round(blocking_ms * 1e6),
    }


def test_the_three_parts_sum_to_communication_as_means_over_ranks():
    rows = [overlap_row(0, 5, 10.0, 6.0, 3.0), overlap_row(1, 5, 10.0, 2.0, 8.0)]
    areas = overlap_per_step(OVERLAP.frame(rows)).data
    by_colour = {area.fillcolor: area.y[0] for area in areas}
    assert len(by_colour) == len(COVER_COLOURS)
    assert [area.y[0] for area in areas] == pytest.approx([4.0, 5.5, 0.5])
    assert areas[0].name == "overlapped by computation: 40 %"


def test_a_step_without_communication_has_no_share():
    area = overlap_per_step(OVERLAP.frame([overlap_row(0, 5, 0.0, 0.0, 0.0)])).data[0]
    assert area.name.endswith(": -")


def test_without_rows_it_says_what_it_takes():
    assert "timeline" in overlap_per_step(OVERLAP.empty()).layout.annotations[0].text
