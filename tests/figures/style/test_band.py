import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.style.band import band, linear_edges, log_edges, outline


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
