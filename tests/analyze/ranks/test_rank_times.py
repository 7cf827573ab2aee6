import numpy as np
import pytest

from hvdprof.analyze.ranks.account import account
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.step_works import MS, simulated
from tests.builders.synced_steps import fsdp_step, launch_of, own_work


def test_the_phases_of_a_step_sum_to_the_time_from_release_to_arrival():
    work = simulated(30, 3)
    times = rank_times(work)
    window = work.own_after_release[:-1] + work.own_before_sync[1:]
    np.testing.assert_allclose(times.own_ns.sum(axis=2)[1:], window)
    assert times.phases == (
        "optimizer",
        "outside",
        "data",
        "forward",
        "backward",
        "before_update",
    )


def test_the_transfer_is_that_of_the_point_before():
    work = simulated(30, 2)
    times = rank_times(work)
    np.testing.assert_allclose(times.transfer_ns[1:], work.transfer[:-1])


@pytest.mark.parametrize("piece", [0, 2, 5])
def test_a_delay_in_a_piece_of_fsdp_is_in_the_point_before_which_it_lies(piece: int):
    step = fsdp_step(2)
    own = own_work(step, (40, 2), extra_ms={piece: np.array([0.0, 30.0])})
    work = launch_of(step, own).work

    times = rank_times(work)

    assert times.per_step == work.points.per_step
    lengths = work.points.before.reshape(-1, times.per_step, 2).copy()
    lengths[1:, 0] += work.own_after_release[:-1]
    own = times.own_ns.sum(axis=2)[times.per_step :]
    np.testing.assert_allclose(own, lengths[1:].reshape(-1, 2), rtol=1e-9)
    of_rank = times.of_steps(account(times).costs_ns).mean(axis=0) / MS
    assert of_rank[1].sum() == pytest.approx(30.0, rel=0.15)
    assert of_rank[1].argmax() == times.phases.index(step[piece].phase)
    assert of_rank[0].sum() < 3.0


def test_a_recording_without_phases_has_mixed_alone():
    work = simulated(30, 2)
    for part in work.parts.values():
        part[:] = 0.0
    assert rank_times(work).phases == ("mixed",)


def test_a_run_of_steps_begins_with_what_lies_behind_its_last_arrival():
    work = simulated(30, 2)
    work.own_after_release[9] += 500.0 * MS
    work.parts["optimizer"][9] += 500.0 * MS
    work.follows[10] = False
    times = rank_times(work)
    for first, last in ((0, 9), (10, 29)):
        window = work.own_after_release[last] + work.own_before_sync[first]
        np.testing.assert_allclose(times.length[first], window)
        np.testing.assert_allclose(times.transfer_ns[first], work.transfer[last])
    assert times.own_ns.min() >= -1.0
    whole = (work.own_after_release + work.own_before_sync).sum()
    assert times.own_ns.sum() == pytest.approx(whole)


def test_some_steps_are_a_launch_of_their_own():
    times = rank_times(simulated(30, 3))
    first, last = int(times.steps[5]), int(times.steps[14])
    part = times.between(first, last)
    assert part.steps.tolist() == times.steps[5:15].tolist()
    np.testing.assert_array_equal(part.own_ns, times.own_ns[5 : 5 + len(part.own_ns)])
    assert part.step_ns == pytest.approx(times.step_ns * part.job_ns / times.job_ns * 3)
    assert times.between(0, 10_000).step_ns == pytest.approx(times.step_ns)
