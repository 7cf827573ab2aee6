import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.timeline.derived_spans import lanes_without_overlap

INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=40).map(sorted)


@given(INTERVALS)
def test_no_overlap_in_a_lane_and_no_lane_too_many(intervals):
    starts = np.array([start for start, _ in intervals], dtype=np.int64)
    ends = starts + np.array([length for _, length in intervals], dtype=np.int64)
    lanes = lanes_without_overlap(starts, ends)
    for lane in set(lanes.tolist()):
        mine = lanes == lane
        assert (ends[mine][:-1] <= starts[mine][1:]).all()
    at_once = max((int(((starts <= t) & (ends > t)).sum()) for t in starts), default=0)
    assert len(set(lanes.tolist())) <= max(at_once, len(intervals) > 0) + (
        # An empty interval needs a lane where others run.
        int((starts == ends).any())
    )
