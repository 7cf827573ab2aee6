import numpy as np
import pytest

from hvdprof.analyze.ranks.account import account
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.step_works import MS, simulated
from tests.builders.synced_steps import fsdp_step, launch_of, own_work


def test_the_phases_of_a_step_sum_to_the_time_from_release_to_arrival():
    work = simulated(30, 3)
    times = rank_times(work)
    np.testing.assert_allclose(
        times.own_ns.sum(axis=2), (work.previous_after + work.own_before_sync)[times.rows]
    )
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
    np.testing.assert_allclose(times.transfer_ns, work.transfer[times.rows - 1])


@pytest.mark.parametrize("piece", [0, 2, 5])
def test_a_delay_in_a_piece_of_fsdp_is_in_the_point_before_which_it_lies(piece: int):
    step = fsdp_step(2)
    own = own_work(step, (40, 2), extra_ms={piece: np.array([0.0, 30.0])})
    work = launch_of(step, own).work

    times = rank_times(work)

    assert times.per_step == work.points.per_step
    lengths = work.points.before.reshape(-1, times.per_step, 2)[times.rows]
    lengths[:, 0] += work.previous_after[times.rows]
    np.testing.assert_allclose(times.own_ns.sum(axis=2), lengths.reshape(-1, 2), rtol=1e-9)
    of_rank = times.of_steps(account(times).costs_ns).mean(axis=0) / MS
    assert of_rank[1].sum() == pytest.approx(30.0, rel=0.15)
    assert of_rank[1].argmax() == times.phases.index(step[piece].phase)
    assert of_rank[0].sum() < 3.0


def test_a_recording_without_phases_has_mixed_alone():
    work = simulated(30, 2)
    for part in work.parts.values():
        part[:] = 0.0
    assert rank_times(work).phases == ("mixed",)
