import dataclasses

import numpy as np
import pytest

from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import RankTimes, rank_times
from hvdprof.analyze.ranks.stragglers import lateness_table, longest_run, stragglers
from hvdprof.model.tables.waiting_tables import STRAGGLER_PATTERNS
from tests.builders.analysis import autoregressive
from tests.builders.step_works import MS, simulated

KEY = ("p", "s")
STEPS, RANKS = 60, 4


def table_of(work):
    costs = costs_of_ranks(rank_costs(rank_times(work), KEY), work.ranks)
    return stragglers(rank_times(work), named_causes(rank_times(work)), costs, KEY)


def late(which, rank, amount_ms):
    extra = np.zeros((STEPS, RANKS))
    extra[which, rank] = amount_ms
    return extra


@pytest.mark.parametrize(
    "phase", ["data", "forward", "backward", "before_update", "optimizer", "outside"]
)
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_rank_that_is_always_slow_is_named_with_its_phase(phase, num_ranks):
    extra = np.zeros((STEPS, num_ranks))
    extra[:, 1] = 10.0

    table = table_of(simulated(STEPS, num_ranks, extra_ms={phase: extra})).set_index("rank")

    assert table.loc[1, "pattern"] == "persistent"
    assert table.loc[1, "phase"] == phase
    assert table.loc[1, "lateness_ns"] == pytest.approx(10 * MS, rel=0.1)
    assert set(table.drop(1)["pattern"]) == {"none"}


def test_a_pause_behind_the_update_within_a_marked_step_is_not_the_update() -> None:
    extra = np.zeros((STEPS, 2))
    extra[:, 1] = 40.0
    work = simulated(STEPS, 2, extra_ms={"outside": extra})
    pause = extra * MS
    after = work.own_after_release + pause
    within = dataclasses.replace(
        work,
        begin=work.begin + pause,
        own_before_sync=work.own_before_sync - pause,
        own_after_release=after,
    )
    table = table_of(within).set_index("rank")
    assert (table.loc[1, "pattern"], table.loc[1, "phase"]) == ("persistent", "outside")


def test_a_rank_that_is_slow_in_every_fourth_step_is_periodic():
    row = table_of(
        simulated(STEPS, RANKS, extra_ms={"forward": late(slice(1, None, 4), 2, 60.0)})
    ).set_index("rank")

    assert row.loc[2, ["pattern", "phase", "period_steps"]].tolist() == ["periodic", "forward", 4]
    assert row.loc[2, ["num_events", "first_step"]].tolist() == [15, 2]
    assert row.loc[2, "share_late"] == pytest.approx(0.25, abs=0.05)
    assert row.loc[2, "lateness_when_late_ns"] == pytest.approx(60 * MS, rel=0.1)
    assert row.loc[0, ["num_events"]].tolist() == [0]
    assert row.loc[0, ["period_steps", "first_step"]].isna().all()


def test_rare_long_stalls_of_one_rank_are_irregular() -> None:
    extra = np.zeros((100, 8))
    extra[[5, 18, 39, 60, 92], 1] = 200.0

    row = table_of(simulated(100, 8, extra_ms={"backward": extra})).set_index("rank")

    assert (row.loc[1, "pattern"], row.loc[1, "phase"]) == ("irregular", "backward")
    assert set(row.drop(1)["pattern"]) == {"none"}


def test_irregular_stalls_of_both_ranks_are_any_ranks() -> None:
    extra = np.zeros((100, 2))
    extra[[5, 31, 80], 1] = 400.0
    extra[52, 0] = 400.0

    table = table_of(simulated(100, 2, extra_ms={"backward": extra}))

    assert table["pattern"].tolist() == ["rotating", "rotating"]
    assert table["phase"].tolist() == ["backward", "backward"]
    assert table["num_events"].tolist() == [1, 3]
    assert table["cost_share"].max() > 0.1


def test_ranks_of_a_slow_host_are_named_together_and_share_their_cost() -> None:
    work = simulated(100, 4, extra_ms={"backward": np.array([0, 0, 20.0, 20.0])})

    row = table_of(work).set_index("rank")

    assert row["pattern"].tolist() == ["none", "none", "persistent", "persistent"]
    assert row["phase"].tolist() == ["", "", "backward", "backward"]
    half = 10 * MS / float(work.step_times.mean())
    assert row["cost_share"].tolist() == pytest.approx([0, 0, half, half], abs=0.01)


def test_rotating_stragglers_are_not_named():
    extra = np.zeros((STEPS, RANKS))
    extra[np.arange(STEPS), np.arange(STEPS) % RANKS] = 30.0

    table = table_of(simulated(STEPS, RANKS, extra_ms={"data": extra}))

    assert set(table["pattern"]) == {"rotating"}
    assert set(table["phase"]) == {""}


def test_time_lost_in_several_phases_is_mixed():
    extra = np.zeros((STEPS, RANKS))
    extra[:, 3] = 10.0
    work = simulated(STEPS, RANKS, extra_ms={"forward": extra, "backward": extra})

    row = table_of(work).set_index("rank").loc[3]

    assert (row["pattern"], row["phase"]) == ("persistent", "mixed")


def test_below_five_percent_of_the_step_no_rank_is_named():
    work = simulated(STEPS, RANKS, noise=0.001, extra_ms={"forward": late(slice(None), 0, 3.0)})

    assert set(table_of(work)["pattern"]) == {"none"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_ranks", "noise", "correlation"),
    [(2, 0.05, 0.0), (2, 0.15, 0.0), (2, 0.15, 0.6), (4, 0.1, 0.3), (8, 0.15, 0.6)],
)
def test_clean_runs_name_no_rank(num_ranks: int, noise: float, correlation: float) -> None:
    runs = 200
    alarms = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, num_ranks])
        slow = [autoregressive(rng, 60, correlation) for _ in range(num_ranks)]
        extra = {"backward": 60 * noise * np.stack(slow, axis=1)}
        table = table_of(simulated(60, num_ranks, noise=0.02, extra_ms=extra, seed=seed))
        alarms += bool(table["pattern"].isin(STRAGGLER_PATTERNS).any())

    assert alarms <= 0.01 * runs


def test_too_few_steps_say_nothing():
    assert table_of(simulated(7, 2, extra_ms={"data": 50.0})).empty


def test_lateness_is_against_the_median_of_the_others():
    times = np.random.default_rng(1).normal(size=(20, 5))

    expected = [[row[r] - np.median(np.delete(row, r)) for r in range(5)] for row in times]

    numbers = np.arange(20)
    own = RankTimes(
        times[..., None], np.zeros((20, 5)), ("mixed",), numbers[:5], numbers, numbers > 0, 1.0
    )
    assert own.lateness == pytest.approx(np.array(expected))


def test_runs_and_shares():
    assert longest_run(np.array([True, False, True, True, True, False])) == 3
    assert longest_run(np.zeros(4, dtype=bool)) == 0


def test_two_ranks_of_a_slow_host_share_what_they_cost() -> None:
    extra = np.zeros((STEPS, RANKS))
    extra[:, 2:] = 20.0

    table = table_of(simulated(STEPS, RANKS, noise=0.0, extra_ms={"forward": extra}))

    late, others = table[table["rank"] >= 2], table[table["rank"] < 2]
    assert late["pattern"].tolist() == ["persistent", "persistent"]
    assert late["cost_ns"].tolist() == pytest.approx([10 * MS] * 2, rel=0.01)
    share = 20 * MS / late["lateness_ns"].iloc[0]
    assert share == pytest.approx(1, rel=0.05)
    assert others["cost_ns"].max() < 0.1 * MS


def test_lateness_holds_every_rank_of_every_step():
    work = simulated(STEPS, 3)
    table = lateness_table({KEY: rank_times(work)})
    assert len(table) == 3 * STEPS
    assert table["rank"].tolist()[:3] == work.ranks.tolist()
    expected = rank_times(work).lateness
    assert table["lateness_ns"].to_numpy().reshape(expected.shape) == pytest.approx(expected)
