"""Windows of all ranks hold the same steps, in order, and lose nothing in between."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.live.e_detector import beyond_others
from hvdprof.live.job_windows import SHOWN, JobRow, JobRows, JobWindow, JobWindows, late_phase, mean
from hvdprof.live.rank_feed import PARTS, RankWindow

STEP_NS = 100_000_000

MS = 1_000_000


def _window(first, last, rank=0, **changes):
    number = last - first + 1
    values = {
        "segment": "main",
        "first": first,
        "last": last,
        "num_steps": number,
        "samples": number,
        "length_ns": number * STEP_NS,
        "own": [number * (rank + 1)] * 6,
        "wall_ns": last,
        "warmup": False,
        "evaluates": False,
    }
    return RankWindow(**{**values, **changes})


def _cut(total, draws, rank=0):
    """Windows over some steps that end at multiples of their own powers of two."""
    first = 0
    while first < total:
        power = 1 << next(draws)
        last = min((first // power + 1) * power, total) - 1
        yield _window(first, last, rank)
        first = last + 1


@given(st.data())
def test_windows_of_any_lengths_nest_and_their_sums_are_those_of_the_inputs(data):
    size, total = data.draw(st.integers(1, 4)), 64
    lengths = st.lists(st.integers(0, 4), min_size=total, max_size=total)
    queues = {rank: list(_cut(total, iter(data.draw(lengths)), rank)) for rank in range(size)}
    joined, found = JobWindows(), []
    inputs = {rank: [replace(one) for one in queue] for rank, queue in queues.items()}
    while any(queues.values()):
        rank = data.draw(st.sampled_from([rank for rank, queue in queues.items() if queue]))
        joined.add(rank, [queues[rank].pop(0)])
        found += joined.finished(size)
    expected = 0
    for window in found:
        assert set(window.ranks) == set(range(size))
        assert {one.first for one in window.ranks.values()} == {expected}
        assert len({one.last for one in window.ranks.values()}) == 1
        expected = window.any_rank.last + 1
    for rank, ones in inputs.items():
        own = sum(one.own[0] for one in ones if one.last < expected)
        assert sum(window.ranks[rank].own[0] for window in found) == own
        assert sum(window.ranks[rank].samples for window in found) == expected
    assert expected >= 48


def test_segments_warm_up_and_evaluations_stay_apart():
    joined = JobWindows()
    for rank in range(2):
        joined.add(
            rank,
            [
                _window(0, 1, warmup=True),
                _window(2, 3),
                _window(4, 4, evaluates=rank == 0),
                _window(5, 6),
                _window(0, 19, segment="next"),
            ],
        )
    found = joined.finished(2)
    assert [(one.any_rank.first, one.any_rank.last, one.is_counted) for one in found] == [
        *((0, 1, False), (2, 3, True), (4, 4, False), (5, 6, True), (0, 19, True))
    ]
    assert {len(one.ranks) for one in found} == {2}


def test_a_rank_that_begins_later_is_awaited_and_met_at_its_first_step():
    joined = JobWindows()
    joined.add(0, [_window(at, at + 9) for at in range(0, 40, 10)])
    assert joined.finished(2) == []
    joined.add(1, [_window(20, 29), _window(30, 39)])
    assert [one.any_rank.first for one in joined.finished(2)] == [20, 30]


def test_a_rank_is_left_out_until_it_records_again():
    joined = JobWindows()
    joined.add(0, [_window(at, at + 9) for at in range(0, 20, 10)])
    joined.add(1, [_window(0, 9)])
    assert len(joined.finished(2)) == 1
    joined.leave_out(1)
    (alone,) = joined.finished(1)
    assert (set(alone.ranks), alone.any_rank.first) == ({0}, 10)
    joined.add(0, [_window(20, 29), _window(30, 39)])
    joined.add(1, [_window(30, 39)])
    (both,) = joined.finished(2)
    assert (set(both.ranks), both.any_rank.first) == ({0, 1}, 30)


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
