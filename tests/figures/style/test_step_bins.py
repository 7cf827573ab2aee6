import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.style.step_bins import bin_largest, bin_means, bin_starts


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
