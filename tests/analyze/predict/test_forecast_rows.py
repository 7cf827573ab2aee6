import math

import numpy as np
import pytest

from hvdprof.analyze.predict.forecast_rows import drawn_limits

SIZES = (8, 16, 32, 64)


def test_a_curve_ends_between_two_sizes_on_a_logarithmic_axis():
    certain = np.tile([0.95, 0.9, 0.8 + 0.05, 0.75], (10, 1))

    found = drawn_limits("25Gbit", SIZES, certain, 0.8, 8)

    assert found.largest_np == pytest.approx(2**5.5)
    assert (found.largest_np_low, found.largest_np_high) == (found.largest_np, found.largest_np)
    assert not found.is_beyond
    assert (found.knee, found.knee_probability) == (32, 1.0)


def test_a_curve_that_stays_above_the_target_ends_beyond_the_last_size():
    half = np.tile([0.95, 0.94, 0.93, 0.92], (9, 1))
    lower = np.tile([0.95, 0.94, 0.70, 0.60], (3, 1))

    found = drawn_limits("25Gbit", SIZES, np.vstack([half, lower]), 0.8, 8)

    assert found.is_beyond
    assert found.is_high_beyond
    assert found.largest_np == 64
    assert 16 < found.largest_np_low < 32
    assert found.knee is None
    assert math.isnan(found.knee_probability)


def test_the_knee_is_not_searched_below_the_first_size():
    steep_first = np.tile([0.95, 0.80, 0.79, 0.70], (5, 1))

    assert drawn_limits("", SIZES, steep_first, 0.5, 8).knee == 8
    assert drawn_limits("", SIZES, steep_first, 0.5, 16).knee == 32


def test_a_target_that_the_smallest_size_misses_gives_no_ranks():
    found = drawn_limits("", SIZES, np.full((4, 4), 0.5), 0.8, 8)

    assert found.largest_np == 0


def test_a_draw_without_lower_end_leaves_the_lower_limit_open():
    draws = np.tile([0.95, 0.94, 0.93, 0.92], (20, 1))
    draws[0, 2:] = math.nan

    assert drawn_limits("", SIZES, draws, 0.8, 8).is_low_open
