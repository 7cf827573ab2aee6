import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.style.outline import linear_edges, log_edges, outline


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
