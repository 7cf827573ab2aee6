import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.waiting import UNDECIDED, caused_wait, step_waits
from tests.builders.examples import examples
from tests.builders.step_works import MS, simulated

KEY = ("p", "s")
ARRIVALS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(2, 7)),
    elements=st.integers(0, 1_000_000).map(float),
)


@settings(deadline=None, max_examples=examples(200))
@given(ARRIVALS)
def test_caused_waits_sum_to_all_waiting(arrived):
    found = step_waits(arrived, np.zeros(arrived.shape[1]))

    assert found.caused_wait.sum(axis=1) == pytest.approx(found.waited.sum(axis=1), abs=1e-3)


@settings(deadline=None, max_examples=examples(100))
@given(ARRIVALS, st.integers(-(10**9), 10**9))
def test_shifting_all_clocks_changes_nothing(arrived, shift):
    before = step_waits(arrived, np.zeros(arrived.shape[1]))
    after = step_waits(arrived + shift, np.zeros(arrived.shape[1]))

    assert np.array_equal(before.last, after.last)
    assert before.caused_wait == pytest.approx(after.caused_wait, abs=1e-3)


@settings(deadline=None, max_examples=examples(100))
@given(ARRIVALS, st.randoms(use_true_random=False))
def test_permuting_ranks_permutes_caused_wait(arrived, random):
    order = list(range(arrived.shape[1]))
    random.shuffle(order)
    u_ns = np.zeros(len(order))
    # Equal arrivals may swap, which changes no sum of a rank but two ranks' names.
    distinct = arrived + np.arange(arrived.shape[1]) / 64

    before, after = step_waits(distinct, u_ns), step_waits(distinct[:, order], u_ns)

    assert before.caused_wait[:, order] == pytest.approx(after.caused_wait, abs=1e-3)
    assert before.wait_as_last[:, order] == pytest.approx(after.wait_as_last, abs=1e-3)


def test_wait_as_last_is_the_gap_to_the_arrival_before_the_last():
    found = step_waits(np.array([[10.0, 40.0, 25.0]]), np.zeros(3))

    assert found.wait_as_last.tolist() == [[0.0, 15.0, 0.0]]
    assert found.waited.tolist() == [[30.0, 0.0, 15.0]]
    # 10 to 25: one waits, two are missing; 25 to 40: two wait, one is missing.
    assert found.caused_wait.tolist() == [[0.0, 7.5 + 30.0, 7.5]]


def test_no_rank_is_last_within_the_clock_error():
    arrived = np.array([[0.0, 100.0], [0.0, 300.0]])

    assert step_waits(arrived, np.array([0.0, 200.0])).last.tolist() == [UNDECIDED, 1]


def test_the_cost_of_a_straggler_is_its_delay():
    work = simulated(80, 4, noise=0.0, extra_ms={"backward": np.array([0, 0, 20.0, 0])})

    costs = costs_of_ranks(rank_costs(rank_times(work), KEY), work.ranks)
    table = caused_wait(work, np.zeros(4), costs, KEY)

    assert table["cost_ns"].tolist() == pytest.approx([0, 0, 20 * MS, 0], abs=1)
    assert table["share_last"].tolist() == [0, 0, 1, 0]
