import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.palette import (
    LINE_COLOURS,
    PART_COLOURS,
    band,
    linear_edges,
    log_axis,
    log_edges,
    outline,
    plain,
    translucent,
)
from hvdprof.model.causes import PARTS


def test_every_part_of_a_step_and_an_evaluation_have_a_colour_each():
    assert set(PART_COLOURS) == {*PARTS, "evaluation"}
    assert len(set(PART_COLOURS.values())) == len(PARTS) + 1


def test_colours_differ_in_lightness_or_hue_by_more_than_a_shade():
    def channels(colour):
        return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]

    for colours in (PART_COLOURS.values(), LINE_COLOURS):
        for one, other in itertools.combinations(colours, 2):
            apart = max(abs(a - b) for a, b in zip(channels(one), channels(other), strict=True))
            assert apart > 40, (one, other)


def test_translucent():
    assert translucent("#0072b2", 0.5) == "rgba(0,114,178,0.5)"


def test_over_decades_only_decades_are_named():
    assert log_axis([0, 1, 1000])["dtick"] == 1


def test_within_a_decade_twos_and_fives_are_named_too():
    assert log_axis([2, 9])["dtick"] == "D2"
    assert log_axis([])["type"] == "log"


def test_where_two_and_five_are_not_among_the_values_plotly_chooses():
    assert "dtick" not in log_axis([410, 450])
    assert "dtick" not in log_axis([9, 12])
    assert log_axis([1.9, 5.1])["dtick"] == "D2"


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=300))
def test_every_value_is_counted_once(values):
    values = np.array(values)
    for edges in (linear_edges(values), log_edges(values)):
        assert len(edges) >= 2
        assert (np.diff(edges) > 0).all()
    drawn = outline(values, linear_edges(values), "a", "#000000")
    assert sum(drawn.y) == len(values)


def test_log_edges_are_whole_decades():
    edges = log_edges(np.array([0.02, 3.0]))
    assert (edges[0], edges[-1]) == pytest.approx((0.01, 10.0))


@pytest.mark.slow
def test_no_more_than_sixty_bins():
    assert len(linear_edges(np.array([0.0] * 500 + [0.001] * 500 + [1e4]))) <= 61


def test_the_outline_goes_along_the_upper_end_and_back_along_the_lower() -> None:
    rows = pd.DataFrame({"np": [1, 2, 4], "low": [0.9, 0.8, 0.7], "high": [1.0, 0.95, 0.9]})
    trace = band(rows["np"], rows["low"], rows["high"], "rgba(0,0,0,0.1)", "a")
    assert list(zip(trace.x, trace.y, strict=True)) == [
        (1, 1.0),
        (2, 0.95),
        (4, 0.9),
        (4, 0.7),
        (2, 0.8),
        (1, 0.9),
    ]
    assert (trace.name, trace.legendgroup, trace.showlegend) == ("a", "a", False)


def test_signs_of_markup_are_text():
    assert plain("<a href='x'>y</a> & z") == "&lt;a href='x'&gt;y&lt;/a&gt; &amp; z"


def test_a_long_name_is_cut_in_the_middle_before_it_is_escaped():
    assert plain("<module>." * 20 + "<weight>", 11) == "&lt;modu…ight&gt;"


def test_lines_become_one():
    assert plain("a\n b\t c") == "a b c"
