import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.stats.intervals import union

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
