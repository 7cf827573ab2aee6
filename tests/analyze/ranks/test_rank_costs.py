import numpy as np
import pytest

from hvdprof.analyze.ranks.account import account
from hvdprof.analyze.ranks.rank_costs import rank_costs, saved_if_removed
from hvdprof.analyze.ranks.rank_times import rank_times
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
