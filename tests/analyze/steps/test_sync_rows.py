"""Which waits of a launch all of its steps and ranks have in common."""

import numpy as np
import pytest

from hvdprof.analyze.steps.replay import replay
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.analyze.steps.sync_rows import _shared
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
