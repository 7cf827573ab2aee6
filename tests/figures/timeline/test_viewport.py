import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.timeline.viewport import Spans

INTERVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 60), st.integers(1, 30)),
    max_size=25,
)


def spans(intervals):
    lane, category, start, length = np.array(intervals, dtype=np.int64).reshape(-1, 4).T
    return Spans(lane, category, 1_000 + start, 1_000 + start + length, (3, 2))


def busy_ns(intervals, lane, category, first, last):
    """By the nanosecond."""
    on = set()
    for one_lane, one_category, start, length in intervals:
        if (one_lane, one_category) == (lane, category):
            on |= set(range(1_000 + start, 1_000 + start + length))
    return len(on & set(range(first, last)))


@pytest.mark.slow
@given(INTERVALS, st.integers(980, 1_080), st.integers(1, 100), st.integers(1, 40))
def test_bins_hold_the_busy_time_to_the_nanosecond(intervals, first, length, most):
    index = spans(intervals)
    bins = index.bins(first, first + length, np.array([2, 0]), most=most)
    assert bins.edges_ns[0] == first
    assert bins.edges_ns[-1] == first + length
    for place, lane in enumerate((2, 0)):
        for category in range(2):
            expected = [
                busy_ns(intervals, lane, category, start, stop) / (stop - start)
                for start, stop in zip(bins.edges_ns[:-1], bins.edges_ns[1:], strict=True)
            ]
            assert bins.busy[place, category] == pytest.approx(expected)


@given(INTERVALS, st.integers(980, 1_080), st.integers(1, 100))
def test_what_is_in_view_is_counted_and_found(intervals, first, length):
    index = spans(intervals)
    last = first + length
    expected = [
        place
        for place, (lane, _, start, dur) in enumerate(intervals)
        if lane in (0, 1) and 1_000 + start < last and 1_000 + start + dur > first
    ]
    lanes = np.array([0, 1])
    found = index.within(first, last, lanes)
    assert found.row.tolist() == expected
    assert [list(one) for one in zip(found.lane, found.category, found.start_ns, strict=True)] == [
        [intervals[place][0], intervals[place][1], 1_000 + intervals[place][2]]
        for place in expected
    ]
    assert index.count(first, last, lanes) == len(expected)


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [([], []), ([(2, 1, 0, 5)], [1]), ([(0, 1, 0, 5), (1, 0, 3, 2)], [0, 1])],
)
def test_the_categories_are_those_of_any_lane(intervals, expected):
    assert spans(intervals).categories().tolist() == expected


def test_many_lanes_get_fewer_bins_and_no_bin_is_shorter_than_a_nanosecond():
    index = Spans(np.arange(512), np.zeros(512, int), np.arange(512), np.arange(512) + 5, (512, 1))
    assert index.bins(0, 500, np.arange(512)).busy.shape == (512, 1, 468)
    assert index.bins(0, 10, np.arange(4)).busy.shape == (4, 1, 10)


def test_it_takes_less_than_a_hundred_bytes_per_event():
    rng = np.random.default_rng(1)
    start = rng.integers(0, 10**9, 100_000)
    overlapping = Spans(
        rng.integers(0, 8, 100_000), rng.integers(0, 5, 100_000), start, start + 10**6, (8, 5)
    )
    assert overlapping.nbytes / len(overlapping) < 100


def test_intervals_are_known_by_the_rows_of_their_table():
    start = np.array([30, 10, 20])
    spans = Spans(
        np.array([1, 0, 1]), np.zeros(3, int), start, start + 5, (2, 1), np.array([7, 9, 11])
    )
    assert spans.within(0, 100, np.array([0, 1])).row.tolist() == [7, 9, 11]
    assert spans.within(0, 26, np.array([1])).row.tolist() == [11]
    assert (spans.where(7), spans.where(9), spans.where(0)) == (1, 0, None)
