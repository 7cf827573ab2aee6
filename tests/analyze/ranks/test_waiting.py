import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.ranks.arrivals import (
    arrival_cubes,
    clocks,
    collective_arrivals,
    pair_bounds,
    shortest,
)
from hvdprof.analyze.ranks.waiting import costs_by_steps, waiting_tables
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from tests.builders import step_works
from tests.builders.analysis import analysis_of, with_a_straggler
from tests.builders.recorded_waits import LATE_STEPS, recorded_waits
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.step_works import MS, arrivals_of, simulated

KEY = ("p", "s")

MEASURES = [column.name for column in RANK_COSTS.columns if column.name.endswith("_ns")]


def test_who_was_first_and_last_for_each_gradient():
    ready = np.array([[[10.0, 30.0, 20.0]], [[50.0, np.nan, 40.0]]])

    (cube,) = arrival_cubes(arrivals_of(ready))
    rows = collective_arrivals(cube).to_dict("records")

    assert [
        (
            row["step"],
            row["num_ranks"],
            row["first_ns"],
            row["second_last_ns"],
            row["last_ns"],
            row["last_rank"],
            row["wait_sum_ns"],
        )
        for row in rows
    ] == [(0, 3, 10, 20, 30, 1, 30), (1, 2, 40, 40, 50, 0, 10)]


def test_blocks_of_steps_change_nothing(monkeypatch):
    ready = np.random.default_rng(0).integers(0, 10**9, size=(17, 5, 4)).astype(float)
    arrivals = arrivals_of(ready)
    (whole,) = arrival_cubes(arrivals)

    monkeypatch.setattr("hvdprof.analyze.ranks.arrivals.MOST_CELLS", 3 * 5 * 4)
    blocks = list(arrival_cubes(arrivals))

    assert len(blocks) == 6
    assert np.array_equal(np.concatenate([one.ready for one in blocks]), whole.ready)
    assert np.concatenate([one.steps for one in blocks]).tolist() == whole.steps.tolist()


def skewed(offsets_ns, drift_ppm, error_ns, *, seed=0):
    """A launch of collectives of 0.4 ms whose ranks' clocks are off."""
    work = simulated(60, len(offsets_ns), noise=0.05, tail_ms=0.4, seed=seed)
    return step_works.skewed(work, offsets_ns, drift_ppm, error_ns)


@pytest.mark.parametrize("seed", range(10))
def test_the_true_offset_lies_in_the_interval(seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0.0], rng.uniform(-5, 5, size=3) * MS])
    work, ready = skewed(offsets, [0, 0, 0, 0], [0, 6 * MS, 6 * MS, 6 * MS], seed=seed)

    table = clocks(work, ready, KEY)

    # The correction that is still needed is the negative of the offset.
    assert (table["offset_low_ns"] <= -offsets + 1).all()
    assert (table["offset_high_ns"] >= -offsets - 1).all()
    assert table["u_ns"].max() < 6 * MS
    assert table["consistent"].all()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_clocks_that_are_off_change_neither_caused_wait_nor_waiting_by_more_than_they_may(seed):
    offsets = np.array([0.0, 5.0, -5.0]) * MS
    true, true_ready = skewed([0, 0, 0], [0, 0, 0], [0, 0, 0], seed=seed)
    work, ready = skewed(offsets, [0, 0, 0], [0, 6 * MS, 6 * MS], seed=seed)
    # Step numbers of the simulation begin with 1.
    arrivals, true_arrivals = (
        arrivals_of(np.concatenate([one[:1], one])[:, None, :]) for one in (ready, true_ready)
    )

    tables = waiting_tables(arrivals, {KEY: work})
    expected = waiting_tables(true_arrivals, {KEY: true})

    # Waiting is a difference of two arrivals, so both clocks' u are in it.
    within = 2 * tables.clocks["u_ns"].max()
    assert within < 5 * MS
    assert tables.caused_wait["waited_ns"].to_numpy() == pytest.approx(
        expected.caused_wait["waited_ns"].to_numpy(), abs=within
    )
    one, other = tables.collective_arrivals, expected.collective_arrivals
    sure = one["decided"].to_numpy()
    assert sure.any()
    assert (one["last_rank"][sure] == other["last_rank"][sure]).all()


def test_parts_of_the_ready_times_give_the_same_blocks():
    ready = np.random.default_rng(0).integers(0, 10**9, size=(9, 5, 4)).astype(float)
    arrivals = arrivals_of(ready)
    (whole,) = arrival_cubes(arrivals)

    parts = (arrivals[arrivals["step"] // 4 == part] for part in range(3))

    assert np.array_equal(np.concatenate([one.ready for one in arrival_cubes(parts)]), whole.ready)


def test_drift_of_twenty_ppm_over_a_launch_stays_within_u():
    work, ready = skewed([0, 1.0 * MS], [0, 20], [0, 2 * MS])
    table = clocks(work, ready, KEY)
    needed = -(1.0 * MS + work.arrived[:, 1] * 20e-6)

    assert (table.loc[1, "offset_low_ns"] - 1 <= needed.max()) & (
        table.loc[1, "offset_high_ns"] + 1 >= needed.min()
    )


def test_clocks_that_collectives_contradict_are_reported():
    work, ready = skewed([0, 50.0 * MS], [0, 0], [0, 1000])

    table = clocks(work, ready, KEY)

    assert not table.loc[1, "consistent"]
    assert table.loc[1, "u_ns"] == 1000


def test_without_ready_times_the_exchange_is_all_there_is():
    work, _ = skewed([0, 0], [0, 0], [0, 700])

    assert clocks(work, None, KEY)["u_ns"].tolist() == [0, 700]


def test_bounds_are_combined_along_paths():
    ready = np.array([[0.0, 0.0, 0.0]])
    released = np.array([[5.0, 7.0, 9.0]])

    bounds = pair_bounds(ready, released)

    assert bounds[1].tolist() == [5.0, 0.0, 9.0]
    assert shortest(np.array([[0, 1, 9], [9, 0, 1], [9, 9, 0]], float))[0, 2] == 2


def test_all_four_tables_of_a_launch():
    extra = np.array([0, 0, 12.0])
    work = simulated(40, 3, extra_ms={"backward": extra}, seed=3)
    ready = np.stack([work.arrived - 2 * MS, work.arrived - 1 * MS], axis=1)
    # Step numbers of the simulation begin with 1.
    arrivals = arrivals_of(np.concatenate([ready[:1], ready]))

    tables = waiting_tables(arrivals, {KEY: work})

    assert len(tables.collective_arrivals) == 2 * 41
    assert set(tables.collective_arrivals["last_rank"]) == {2}
    assert tables.caused_wait.set_index("rank")["caused_wait_ns"].idxmax() == 2
    named = tables.stragglers.set_index("rank")
    assert (named.loc[2, "pattern"], named.loc[2, "phase"]) == ("persistent", "backward")
    assert tables.clocks["u_ns"].tolist() == [0, 0, 0]


def test_a_single_rank_never_waits():
    tables = waiting_tables(arrivals_of(np.ones((3, 1, 1))), {KEY: simulated(20, 1)})

    assert tables.caused_wait.empty
    assert tables.stragglers.empty


@pytest.mark.heavy
def test_a_recording_shows_which_rank_slept_and_where_it_did_not():
    arrivals, work = recorded_waits()

    tables = waiting_tables(arrivals, {KEY: work})

    assert tables.clocks["consistent"].all()
    by_step = tables.collective_arrivals.groupby("step")
    gap = (by_step["last_ns"].min() - by_step["second_last_ns"].max())[list(LATE_STEPS)]
    assert (gap > 100 * MS).all()
    assert set(by_step.get_group(2)["last_rank"]) == {1}
    # Horovod's timeline says that rank 1 was last here too.
    assert set(by_step.get_group(0)["last_rank"]) == set(by_step.get_group(1)["last_rank"]) == {0}
    caused_wait = tables.caused_wait.set_index("rank")["caused_wait_ns"]
    assert caused_wait[1] == pytest.approx(490 / 12 * MS, rel=0.06)
    assert caused_wait[1] > 10 * caused_wait[0]


@pytest.mark.heavy
def test_four_sleeps_that_all_are_of_one_rank_are_its_own():
    _, once = recorded_waits()
    _, often = recorded_waits(times=4)
    empty = arrivals_of(np.full((1, 1, 2), np.nan))

    few = waiting_tables(empty, {KEY: once}).stragglers.set_index("rank")
    many = waiting_tables(empty, {KEY: often}).stragglers.set_index("rank")

    assert (few.loc[1, "phase"], few.loc[1, "num_events"]) == ("forward", 4)
    assert few["cost_share"].max() > 0.3
    assert few.loc[0, "pattern"] == "none"
    assert (many.loc[1, "pattern"], many.loc[1, "phase"]) == ("periodic", "forward")
    assert many.loc[0, "pattern"] == "none"


@pytest.mark.heavy
def test_offsets_of_5_ms_and_drifts_of_20_ppm_are_found_within_u():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        offsets = np.concatenate([[0.0], rng.uniform(-5, 5, size=3) * MS])
        drifts = np.concatenate([[0.0], rng.uniform(-20, 20, size=3)])
        work, ready = skewed(offsets, drifts, [0, 6 * MS, 6 * MS, 6 * MS], seed=seed)
        table = clocks(work, ready, KEY)
        needed = -(offsets + work.arrived.mean(axis=0) * drifts * 1e-6)
        middle = (table["offset_low_ns"] + table["offset_high_ns"]).to_numpy() / 2
        # Collectives of 0.4 ms, and 0.1 ms from the last gradient to the wait for it.
        assert table["u_ns"].max() < 0.6 * MS
        found += list(np.abs(needed - middle) <= table["u_ns"].to_numpy() + 1)

    assert np.mean(found) >= 0.95


@pytest.mark.heavy
def test_costs_of_all_steps_are_those_of_the_analysis(tmp_path):
    analysis = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    whole = analysis.table("rank_costs")
    key = str(whole["pass_id"].iloc[-1]), str(whole["segment"].iloc[-1])
    own = whole[((whole["pass_id"] == key[0]) & (whole["segment"] == key[1])).to_numpy()]
    found = costs_by_steps(analysis, key)(0, 1_000)
    pd.testing.assert_frame_equal(found[MEASURES], own[MEASURES].reset_index(drop=True))


@pytest.mark.heavy
def test_costs_are_those_of_the_chosen_steady_steps_alone(tmp_path):
    parts = {name: ms + pd.Series([0.0] * 62) for name, ms in typical_parts(10.0, 6.0).items()}
    forward = [[float(ms) for ms in parts["forward"]] for _ in range(2)]
    blocked = [[float(ms) for ms in parts["blocked"]] for _ in range(2)]
    for step in range(40, 62):
        forward[1][step] += 3.0
        blocked[1][step] -= 3.0
    spec = SegmentSpec(parts_ms={**parts, "forward": forward, "blocked": blocked})
    analysis = analysis_of(tmp_path / "run", [PassSpec(size=2, segments=[spec])])
    rows = analysis.table("rank_costs")
    costs = costs_by_steps(analysis, (str(rows["pass_id"].iloc[0]), str(rows["segment"].iloc[0])))

    def of_rank(first, last):
        found = costs(first, last)
        return found[found["rank"] == 1]["cost_ns"].sum()

    assert of_rank(10, 35) == pytest.approx(0, abs=1e3)
    assert of_rank(45, 55) == pytest.approx(3e6, rel=0.01)
    # The warm-up does not count.
    assert costs(0, 0).empty
