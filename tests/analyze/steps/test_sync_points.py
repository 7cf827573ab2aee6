"""Steps with several synchronizations: those with one are the special case, number for number."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.ceilings import (
    _with_even_ranks,
    _without_data,
    _without_jitter,
    on_ideal_network,
    replay,
)
from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.arrivals import clocks, corrected
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.stragglers import lateness_table, stragglers
from hvdprof.analyze.ranks.waiting import UNDECIDED, caused_wait, step_waits
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.analyze.steps.sync_points import _shared
from tests.builders.launch_patterns import PATTERNS, Shape
from tests.builders.launch_patterns import launch_of as pattern_launch
from tests.builders.step_works import simulated
from tests.builders.synced_steps import MS, SyncedLaunch, fsdp_step, launch_of, own_work

PIECES = fsdp_step(3)


@pytest.fixture
def launch() -> SyncedLaunch:
    return launch_of(PIECES, own_work(PIECES, (20, 3), noise=0.05))


def read(launch, waits):
    return step_work(launch.steps, launch.events, launch.job_steps, waits)["p", "s"]


def test_own_time_between_two_waits_is_read_as_it_was_simulated(launch):
    own = own_work(PIECES, (20, 3), noise=0.05)
    points = launch.work.points

    for place in range(1, points.per_step):
        assert points.at(place, points.before) == pytest.approx(own[1:, place], abs=4)
    # The first one begins at the end of the previous step, the optimizer's is behind the last.
    assert points.at(0, points.before) == pytest.approx(own[1:, 0], abs=4)
    assert points.at(-1, points.after) == pytest.approx(own[1:, -1], abs=4)
    assert not points.at(0, points.after).any()


def test_points_sum_to_the_step(launch):
    work = launch.work
    points = work.points

    assert points.of_steps(points.before) == pytest.approx(work.own_before_sync, abs=20)
    assert points.at(-1, points.released) == pytest.approx(work.end - work.own_after_release, abs=4)


@pytest.mark.parametrize("column", ["step", "rank"])
def test_a_wait_that_is_not_everywhere_is_no_point(launch, column):
    """Such as the loss that is averaged in every tenth step, or that one rank alone logs."""
    waits = launch.waits
    gone = (waits["number"] == 4) & (waits[column] != 1)

    work = read(launch, waits[~gone])

    assert work.points.per_step == len(PIECES) - 1
    assert replay(work) == pytest.approx(work.step_times, abs=100)


def test_waits_of_a_part_of_the_ranks_are_no_points(launch):
    waits = launch.waits.assign(num_ranks=np.where(launch.waits["number"] < 6, 2, 3))

    work = read(launch, waits)

    assert work.points.per_step == len(PIECES) - 6
    assert work.points.of_steps(work.points.before) == pytest.approx(work.own_before_sync, abs=20)
    assert replay(work) == pytest.approx(work.step_times, abs=100)


@pytest.mark.parametrize("num_ranks", [0, 2])
def test_steps_without_waits_of_all_ranks_have_one_synchronization(launch, num_ranks):
    assert read(launch, launch.waits.assign(num_ranks=num_ranks)).syncs is None
    assert read(launch, launch.waits.iloc[:0]).syncs is None
    assert read(launch, launch.waits[launch.waits["number"] == 3]).syncs is None


def test_waits_of_another_launch_change_nothing(launch):
    assert read(launch, launch.waits.assign(pass_id="other")).syncs is None


def test_a_submission_is_never_after_the_wait(launch):
    unknown = launch.waits.assign(submitted_ns=None)
    late = launch.waits.assign(submitted_ns=launch.waits["start_ns"] + 5 * MS)

    for waits in (unknown.astype({"submitted_ns": "Int64"}), late):
        points = read(launch, waits).points
        assert (points.submitted == points.arrived).all()


@pytest.mark.parametrize(
    ("sequences", "shared"),
    [
        ({b"abc"}, b"abc"),
        ({b"abc", b"abxc"}, b"abc"),
        ({b"abc", b"axc", b"abbc"}, b"ac"),
        ({b"abcd", b"badc"}, b"bd"),
        ({b"abc", b""}, b""),
        (set(), b""),
        ({b"a" * 3000, b"a" * 2}, b""),
    ],
)
def test_the_shared_sequence_is_a_subsequence_of_all(sequences, shared):
    found = _shared(sequences)

    assert len(found) == len(shared)
    for one in sequences if found else ():
        left = iter(one)
        assert all(code in left for code in found)


KEY = ("p", "s")


def costs_of(work):
    return costs_of_ranks(rank_costs(rank_times(work), KEY), work.ranks)


def with_points(work):
    """The same launch, its one synchronization per step stated as such."""
    return dataclasses.replace(work, syncs=work.points)


@pytest.mark.heavy
@pytest.mark.parametrize("make", PATTERNS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("num_ranks", [2, 5])
def test_one_synchronization_per_step_is_the_special_case(make, num_ranks):
    shape = Shape(60, num_ranks, np.random.default_rng([7, num_ranks]))
    work = pattern_launch(make(shape), shape, "independent", 3)
    other = with_points(work)
    u_ns = np.full(num_ranks, 1000.0)

    named = named_causes(rank_times(work))
    # As texts: since Python 3.13 dataclasses that hold NaN differ from each other.
    assert [
        repr(dataclasses.replace(one, affected=None)) for one in named_causes(rank_times(other))
    ] == [repr(dataclasses.replace(one, affected=None)) for one in named]
    members = [[one] for one in named]
    assert launch_causes(rank_times(other), members) == launch_causes(rank_times(work), members)
    costs = costs_of(work)
    assert (costs_of(other) == costs).all()
    pd.testing.assert_frame_equal(
        caused_wait(other, u_ns, costs, KEY), caused_wait(work, u_ns, costs, KEY)
    )
    pd.testing.assert_frame_equal(
        stragglers(rank_times(other), named, costs, KEY),
        stragglers(rank_times(work), named, costs, KEY),
    )
    pd.testing.assert_frame_equal(
        lateness_table({KEY: rank_times(other)}), lateness_table({KEY: rank_times(work)})
    )
    for remedy in (on_ideal_network, _with_even_ranks, _without_jitter, _without_data, replay):
        assert (remedy(other) == remedy(work)).all()


@pytest.mark.parametrize("num_ranks", [1, 2, 8])
def test_a_replay_of_nothing_changed_is_what_was_measured(num_ranks):
    pieces = fsdp_step(5)
    work = launch_of(pieces, own_work(pieces, (30, num_ranks), noise=0.1)).work

    assert work.points.per_step == len(pieces)
    assert replay(work) == pytest.approx(work.step_times, abs=100)


@pytest.mark.heavy
@pytest.mark.parametrize("place", [0, 2, 7])
def test_a_late_rank_costs_its_lateness_wherever_the_step_waits_for_it(place):
    pieces = fsdp_step(4)
    extra = np.zeros((80, 4))
    extra[:, 2] = 8.0
    late = launch_of(pieces, own_work(pieces, (80, 4), extra_ms={place: extra}, noise=0.005)).work
    clean = launch_of(pieces, own_work(pieces, (80, 4), noise=0.005)).work

    costs = costs_of(late) / MS
    truth = (late.step_times.mean() - clean.step_times.mean()) / MS
    assert costs[2] == pytest.approx(truth, rel=0.05)
    assert costs[[0, 1, 3]].max() < 0.5
    (cause,) = named_causes(rank_times(late))
    assert (cause.ranks, cause.phase) == ((2,), pieces[place].phase)
    shares = launch_causes(rank_times(late), [[cause]])
    assert shares.named[0].share * late.step_times.mean() / MS == pytest.approx(truth, rel=0.1)
    whole = sum(one.share for one in (*shares.named, shares.jitter, shares.transfer))
    assert whole + shares.normal_share == pytest.approx(1.0)


def test_two_ranks_late_at_different_points_of_a_step_both_cost_it():
    """Summed over the step neither is late alone: an account of whole steps sees half of it."""
    pieces, extra = fsdp_step(3), np.zeros((60, 4))
    forward, backward = extra.copy(), extra.copy()
    forward[:, 0], backward[:, 1] = 10.0, 10.0
    own = own_work(pieces, (60, 4), extra_ms={2: forward, 4: backward}, noise=0.002)
    work = launch_of(pieces, own).work

    assert costs_of(work)[:2] / MS == pytest.approx([10.0, 10.0], abs=0.5)
    whole = dataclasses.replace(work, syncs=None)
    assert costs_of(whole)[:2] / MS == pytest.approx([5.0, 5.0], abs=0.5)
    late = lateness_table({KEY: rank_times(work)}).groupby("rank")["lateness_ns"].mean() / MS
    assert late[[0, 1]].tolist() == pytest.approx([10.0, 10.0], abs=0.5)


def test_a_collective_in_flight_delays_others_only_until_it_is_submitted():
    # Rank 1 submits at 30 and waits from 50 on; rank 0 waits since 10, rank 2 since 40.
    arrived = np.array([[10.0, 50.0, 40.0]])
    submitted = np.array([[5.0, 30.0, 20.0]])

    waits = step_waits(arrived, np.zeros(3), submitted)

    assert waits.waited.tolist() == [[20.0, 0.0, 0.0]]
    # From 10 to 20 ranks 1 and 2 are missing, from 20 to 30 rank 1 alone.
    assert waits.caused_wait.tolist() == [[0.0, 15.0, 5.0]]
    assert waits.wait_as_last.tolist() == [[0.0, 10.0, 0.0]]
    assert waits.last.tolist() == [1]


def test_without_a_rank_that_waits_none_is_last():
    waits = step_waits(np.array([[50.0, 60.0]]), np.zeros(2), np.array([[10.0, 20.0]]))

    assert not waits.waited.any()
    assert waits.last.tolist() == [UNDECIDED]


def test_waits_caused_sum_to_all_waiting():
    pieces = fsdp_step(4)
    own = own_work(pieces, (40, 4), noise=0.2)
    early = np.full(own.shape[1], 2.0 * MS)
    points = launch_of(pieces, own, submits_early=early).work.points

    waits = step_waits(points.arrived, np.zeros(4), points.submitted)

    assert waits.caused_wait.sum() == pytest.approx(waits.waited.sum())
    # No rank waited longer than it was blocked.
    assert (waits.waited <= points.released - points.arrived + 1).all()


def test_every_synchronization_bounds_the_clocks():
    pieces = fsdp_step(6)
    work = launch_of(pieces, own_work(pieces, (60, 3), noise=0.1), transfer_ms=0.2).work
    unsure = dataclasses.replace(work, clock_error=np.full(work.own_before_sync.shape, 50.0 * MS))
    skewed = corrected(unsure, np.array([0.0, 3.0 * MS, -2.0 * MS]))

    table = clocks(skewed, None, KEY)

    assert table["u_ns"].max() < 0.5 * MS
    truth = np.array([0.0, -3.0, 2.0]) * MS
    assert (table["offset_low_ns"] <= truth + 1).all()
    assert (table["offset_high_ns"] >= truth - 1).all()
    alone = clocks(dataclasses.replace(skewed, syncs=None), None, KEY)
    assert alone["u_ns"].tolist() == [50.0 * MS] * 3


def test_offsets_change_no_time_on_a_clock_of_its_own():
    work = simulated(20, 3)
    points = with_points(work).points.shifted(np.array([0.0, 5.0, -7.0]))

    assert points.before == pytest.approx(work.own_before_sync)
    released = points.released - points.begin
    assert released == pytest.approx(work.points.released - work.begin)
