import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.ranks.account import (
    account,
    costs_of,
    credit,
    known_medians,
    rank_costs,
    saved_if_removed,
    shapley_of_max,
    shared,
)
from hvdprof.analyze.ranks.rank_times import RankTimes, rank_times
from tests.builders.step_works import MS, simulated

KEY = ("p", "s")


def test_a_late_rank_costs_its_delay_in_its_phase():
    work = simulated(60, 4, extra_ms={"forward": np.array([0, 0, 30.0, 0])}, noise=0.001)

    rows = rank_costs(rank_times(work), KEY).set_index(["rank", "phase"])

    (own,) = rows.loc[[(2, "forward")]].to_dict("records")
    for name in ("cost_ns", "saved_if_removed_ns", "later_ns"):
        assert own[name] == pytest.approx(30 * MS, rel=0.02)
    assert own["own_ns"] == pytest.approx(60 * MS, rel=0.01)
    assert own["shared_ns"] == pytest.approx(30 * MS, rel=0.01)
    assert rows["cost_ns"].drop([(2, "forward")]).abs().max() < 0.5 * MS
    assert own["cost_share"] == pytest.approx(own["cost_ns"] / work.step_times.mean())


def test_with_what_is_shared_and_the_transfer_the_costs_are_the_step():
    work = simulated(80, 3, extra_ms={"data": np.array([0, 12.0, 3.0])})
    times = rank_times(work)

    rows = rank_costs(rank_times(work), KEY)

    whole = rows["cost_ns"].sum() + rows[rows["rank"] == 0]["shared_ns"].sum()
    whole += times.of_steps(account(times).transfer_ns).mean()
    assert whole == pytest.approx(times.job_ns / len(times.steps), rel=1e-9)
    assert whole == pytest.approx(work.step_times.mean(), rel=0.01)


def test_what_one_of_two_late_ranks_alone_saves_is_less_than_both_cost():
    extra = np.array([0, 0, 0, 20.0, 30.0])
    work = simulated(60, 5, extra_ms={"backward": extra}, noise=0.001)
    times = rank_times(work)
    place = times.phases.index("backward")

    saved = saved_if_removed(times, account(times)).mean(axis=0)[:, place] / MS

    assert saved[4] == pytest.approx(10.0, rel=0.05)
    assert saved[3] < 0.5


def test_one_rank_has_no_rows():
    assert rank_costs(rank_times(simulated(20, 1)), KEY).empty


NOTHING = np.zeros(0, dtype=np.int64)


def times_of(own: np.ndarray, transfer: np.ndarray, per_step: int = 1) -> RankTimes:
    phases = tuple(f"phase{number}" for number in range(own.shape[2]))
    return RankTimes(
        own_ns=own,
        transfer_ns=transfer,
        phases=phases,
        ranks=NOTHING,
        steps=NOTHING,
        follows=NOTHING > 0,
        step_ns=1.0,
        per_step=per_step,
    )


shapes = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32))


@given(shapes)
def test_the_account_sums_to_the_time_between_last_arrivals(shape: tuple[int, int, int, int]):
    num_points, num_ranks, num_phases, seed = shape
    rng = np.random.default_rng(seed)
    own = rng.exponential(10.0, (num_points, num_ranks, num_phases))
    transfer = rng.exponential(1.0, (num_points, num_ranks))

    parts = account(times_of(own, transfer))

    longest = (own.sum(axis=2) + transfer).max(axis=1)
    total = parts.shared_ns.sum(axis=1) + parts.costs_ns.sum(axis=(1, 2)) + parts.transfer_ns
    np.testing.assert_allclose(total, longest, rtol=1e-12)
    assert (parts.costs_ns.sum(axis=2) + 1e-9 >= -transfer.max()).all()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_the_closed_form_is_the_mean_over_all_orders(times: list[float]):
    added = np.zeros(len(times))
    orders = list(itertools.permutations(range(len(times))))
    for order in orders:
        so_far = 0.0
        for rank in order:
            added[rank] += max(times[rank] - so_far, 0.0)
            so_far = max(so_far, times[rank])
    values = shapley_of_max(np.array([times]))
    np.testing.assert_allclose(values[0], added / len(orders), atol=1e-9)


def test_what_a_late_rank_of_two_spends_more_is_not_shared():
    late = np.zeros((100, 2))
    late[::3, 1] = 80.0
    times = rank_times(simulated(100, 2, extra_ms={"data": late}, noise=0.001))

    parts = account(times)

    data = times.phases.index("data")
    assert parts.shared_ns[:, data].mean() == pytest.approx(2 * MS, rel=0.02)
    costs = parts.costs_ns.mean(axis=0) / MS
    assert costs[1, data] == pytest.approx(80 * late[:, 1].astype(bool).mean(), rel=0.01)
    assert costs[0, data] < 0.1


def test_what_both_of_two_ranks_spend_is_shared():
    late = np.zeros((100, 2))
    late[::3] = 80.0
    times = rank_times(simulated(100, 2, extra_ms={"data": late}, noise=0.001))

    parts = account(times)

    assert parts.costs_ns.sum() < 0.02 * parts.shared_ns.sum()


def test_ranks_in_different_phases_at_a_point_share_its_time():
    own = np.zeros((20, 2, 2))
    own[:, 0, 0] = own[:, 1, 1] = 10.0

    common = shared(own)

    np.testing.assert_allclose(common.sum(axis=1), 10.0)


def test_the_costs_of_a_rank_lie_in_the_phases_of_its_excess():
    excess = np.array([[[30.0, 10.0, -4.0], [0.0, 0.0, 0.0], [-5.0, 2.0, 0.0]]])
    costs = costs_of(excess)
    np.testing.assert_allclose(costs[0, 0], [30.0, 10.0, -4.0])
    assert not costs[0, 1:].any()


def test_the_credit_of_a_late_rank_is_against_the_others_as_one():
    np.testing.assert_allclose(credit(np.array([[30.0, 10.0, 5.0]])), [[25.0, 5.0, 2.5]])


@pytest.mark.parametrize("num_known", [0, 1, 2, 7])
def test_known_medians_leave_out_nan(num_known):
    times = np.random.default_rng(num_known).random((7, 3))
    times[num_known:, 1] = np.nan

    expected = np.median(times[:num_known, 1]) if num_known else 0.0
    assert known_medians(times).tolist() == pytest.approx(
        [np.median(times[:, 0]), expected, np.median(times[:, 2])]
    )
