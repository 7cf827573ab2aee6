import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures import fewer_rows as module
from hvdprof.figures.fewer_rows import bin_largest, bin_means, bin_starts, largest_of_each


@given(st.integers(0, 5000), st.integers(1, 600))
def test_bins_cover_all_values_in_order_and_are_of_even_length(num_values, most):
    starts = bin_starts(num_values, most)
    assert len(starts) == min(num_values, most)
    lengths = np.diff(starts, append=num_values)
    assert lengths.sum() == num_values
    assert num_values == 0 or lengths.max() - lengths.min() <= 1


def test_means_and_largest_of_rows():
    values = np.arange(12.0).reshape(6, 2)
    starts = bin_starts(6, 3)
    assert bin_means(values, starts).tolist() == [[1, 2], [5, 6], [9, 10]]
    assert bin_largest(values, starts).tolist() == [[2, 3], [6, 7], [10, 11]]


@pytest.mark.parametrize("binned", [bin_means, bin_largest])
def test_nothing_stays_nothing(binned):
    assert len(binned(np.empty((0, 3)), bin_starts(0, 5))) == 0


def test_the_largest_of_each_group_largest_first():
    table = pd.DataFrame({"step": [1, 1, 2, 3], "ns": [5, 9, 7, 1], "tensor": list("abcd")})
    found = largest_of_each(table, "ns", ["step"], 2)
    assert found["tensor"].tolist() == ["b", "c"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=60), st.integers(1, 8))
def test_few_candidates_find_what_sorting_everything_finds(rows, most):
    table = pd.DataFrame(rows, columns=["step", "ns"]).astype("int64")
    expected = table.groupby("step")["ns"].max().sort_values(ascending=False).head(most)
    before = module._CANDIDATES_OF_EACH
    module._CANDIDATES_OF_EACH = 1
    try:
        found = largest_of_each(table, "ns", ["step"], most)
    finally:
        module._CANDIDATES_OF_EACH = before
    assert found["ns"].tolist() == expected.tolist()
    assert found["step"].is_unique
