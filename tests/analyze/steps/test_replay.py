import numpy as np
import pytest

from hvdprof.analyze.causes.ceilings import (
    Change,
    on_ideal_network,
    replay,
    with_rank_on_time,
)
from hvdprof.analyze.steps.step_work import step_work
from tests.builders.step_works import MS, simulated, tables_of


@pytest.mark.parametrize("num_ranks", [1, 2, 7])
def test_a_replay_of_nothing_changed_is_what_was_measured(num_ranks):
    work = simulated(40, num_ranks, noise=0.2, seed=num_ranks)

    assert replay(work) == pytest.approx(work.step_times, abs=1e-3)


def test_it_comes_out_of_the_tables_as_it_went_in():
    work = simulated(30, 3, noise=0.1)
    steps, events, job_steps = tables_of(work)

    read = step_work(steps, events, job_steps)["p", "s"]

    # The first step has none before it, so it is taken from its own start.
    assert read.own_before_sync[1:] == pytest.approx(work.own_before_sync[1:], abs=4)
    assert read.transfer == pytest.approx(work.transfer, abs=4)
    assert read.own_after_release == pytest.approx(work.own_after_release, abs=4)
    assert replay(read)[1:] == pytest.approx(work.step_times[1:], abs=8)


def test_a_gap_in_the_steps_begins_anew():
    work = simulated(30, 2)
    steps, events, job_steps = tables_of(work)
    lost = (steps["step"] == 11) & (steps["rank"] == 1)

    read = step_work(steps[~lost], events, job_steps)["p", "s"]

    assert list(read.steps[~read.follows]) == [1, 12]
    assert replay(read) == pytest.approx(read.step_times, abs=1e-3)


def test_an_ideal_network_takes_away_the_tail_and_no_more():
    work = simulated(50, 4, noise=0.0, tail_ms=7)

    assert replay(work) - on_ideal_network(work) == pytest.approx(np.full(50, 7 * MS))


def test_a_rank_on_time_gives_back_what_it_was_late():
    late = np.zeros((60, 4))
    late[::3, 2] = 25.0
    work = simulated(60, 4, noise=0.0, extra_ms={"forward": late})

    saved = replay(work) - with_rank_on_time(work, 2)

    assert saved == pytest.approx(25 * MS * (np.arange(60) % 3 == 0), abs=1)
    assert replay(work) == pytest.approx(with_rank_on_time(work, 1))


def test_slow_updates_move_the_next_arrival():
    work = simulated(20, 2, noise=0.0)
    after = work.own_after_release.copy()
    after[:, 1] += 4 * MS

    slower = replay(work, Change(after=after))

    assert slower == pytest.approx(work.step_times + 4 * MS, abs=1)
