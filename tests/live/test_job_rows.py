"""Own times of windows as rows, and the means over the latest of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.live.e_detector import beyond_others
from hvdprof.live.job_rows import SHOWN, JobRow, JobRows, late_phase, mean
from hvdprof.live.job_windows import JobWindow
from hvdprof.live.rank_feed import PARTS, RankWindow

MS = 1_000_000


def row(parts_ms, length_ms=100.0, steps=4):
    """A row of ranks with parts in ms per step; None for a rank whose waits are unseen."""
    ranks = {
        rank: RankWindow(
            segment="main",
            first=0,
            last=steps - 1,
            num_steps=steps,
            samples=8 * steps,
            length_ns=int(length_ms * MS) * steps,
            own=None if of_rank is None else [int(one * MS) * steps for one in of_rank],
            wall_ns=10**18,
            warmup=False,
            evaluates=False,
        )
        for rank, of_rank in enumerate(parts_ms)
    }
    return JobRow.of(JobWindow(ranks))


def parts(data, forward):
    return [data, forward, 20.0, 0.0, 5.0, 0.0]


def test_a_row_states_the_slowest_rank_its_lead_and_the_step_without_it():
    found = row([parts(10, 30), parts(25, 30), parts(12, 30)])
    assert (found.slowest, found.lead) == (1, pytest.approx(13 * MS))
    assert found.common == pytest.approx((100 - 13) * MS)
    assert found.cost_of(1) == found.lead
    assert found.cost_of(0) == 0.0
    assert found.blocked == pytest.approx(20 * MS)
    assert found.data == pytest.approx(10 * MS)
    assert found.samples_per_s == pytest.approx(3 * 8 / 0.1)


def test_unseen_waits_leave_figures_unknown():
    found = row([parts(10, 30), None])
    assert math.isnan(found.blocked)
    assert set(found.own) == {0}
    assert found.lead == 0.0


def test_the_phase_of_a_delay_is_that_with_most_of_it():
    rows = [row([parts(10, 30), parts(11, 38)]), row([parts(10, 30), parts(10, 40)])]
    phase, late = late_phase(1, rows)
    assert (phase, late) == ("forward", pytest.approx(9.5 * MS))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=3, max_size=3),
        min_size=1,
        max_size=3 * SHOWN,
    )
)
def test_running_means_are_those_of_the_latest_rows(windows):
    rows = JobRows()
    made = [row([parts(*rank) for rank in window]) for window in windows]
    for one in made:
        assert not rows.add(one)
    shown = made[-SHOWN:]
    assert rows.num_shown == len(shown)
    for rank, (late, phase, cost) in rows.lateness().items():
        own = {other: mean([one.own[other] for one in shown]) for other in range(3)}
        assert late == pytest.approx(beyond_others(own)[rank], abs=1)
        assert cost == pytest.approx(np.mean([one.cost_of(rank) for one in shown]), abs=1)
        assert (phase in PARTS) == (late > 0)


def test_other_ranks_begin_anew():
    rows = JobRows()
    rows.add(row([parts(10, 30), parts(20, 30)]))
    assert rows.add(row([parts(10, 30)] * 3))
    assert rows.num_shown == 1
    assert set(rows.lateness()) == {0, 1, 2}
