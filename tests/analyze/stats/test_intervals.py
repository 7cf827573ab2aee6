import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.stats.intervals import RunningUnion, ValueCounts, union

PIECES = st.lists(st.lists(st.integers(-5, 10**12) | st.integers(0, 9), max_size=8), max_size=6)


@given(PIECES, st.floats(0, 1))
def test_quantiles_are_those_of_all_values(pieces: list[list[int]], share: float) -> None:
    counts = ValueCounts()
    for piece in pieces:
        counts.add(np.asarray(piece, dtype=np.int64))
    values = list(itertools.chain(*pieces))
    assert len(counts) == len(values)
    found = counts.quantile(share)
    if not values:
        assert found is None
    else:
        assert found == pytest.approx(np.quantile(values, share), rel=1e-12, abs=1e-3)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_a_union_of_pieces_in_order_is_that_of_all(
    intervals: list[tuple[int, int]], cuts: list[int]
) -> None:
    ordered = np.asarray(sorted(intervals), dtype=np.int64).reshape(-1, 2)
    starts, ends = ordered[:, 0], ordered[:, 0] + ordered[:, 1]
    running = RunningUnion()
    borders = [0, *sorted(min(cut, len(starts)) for cut in cuts), len(starts)]
    for first, last in itertools.pairwise(borders):
        running.add(starts[first:last], ends[first:last])
    assert running.length == union(starts, ends).length
    assert len(running) == len(starts)


def test_a_clock_that_was_set_back_counts_nothing_twice() -> None:
    running = RunningUnion()
    for _ in range(2):
        running.add(np.array([0, 20]), np.array([10, 30]))
    assert running.length == 20


SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=25)


def arrays(spans):
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    return starts, starts + np.array([length for _, length in spans], dtype=np.int64)


def cells(spans):
    return {moment for start, length in spans for moment in range(start, start + length)}


@given(SPANS)
def test_the_union_is_what_counting_every_moment_gives(spans):
    found = union(*arrays(spans))

    assert found.length == len(cells(spans))
    assert (found.starts < found.ends).all()
    assert (found.starts[1:] > found.ends[:-1]).all()


@given(SPANS)
def test_the_union_is_no_longer_than_the_span_and_the_sum(spans):
    starts, ends = arrays(spans)
    found = union(starts, ends)

    assert found.length <= (ends - starts).sum()
    assert found.length <= (max(ends, default=0) - min(starts, default=0))


@given(SPANS, SPANS)
def test_what_is_covered_is_what_both_share(spans, others):
    low, high = arrays(others)

    covered = union(*arrays(spans)).covered(low, high)

    assert list(covered) == [len(cells(spans) & cells([one])) for one in others]
