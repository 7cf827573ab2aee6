"""Input queues that run empty: whose waits they are, and what they cost."""

from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.jitter import jitter_rank
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.queues import late_batches, queue_waits
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.waiting import own_times
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from tests.builders.declared_rows import declared_rows
from tests.builders.step_works import simulated

STEPS = 40


def waiting(*waits_ms, seed=0, steps=STEPS):
    """A launch whose ranks wait for data: of each the wait, in steps of its own turn."""
    rng = np.random.default_rng(seed)
    turn = rng.integers(0, len(waits_ms), steps)
    extra = np.zeros((steps, len(waits_ms)))
    for rank, wait_ms in enumerate(waits_ms):
        extra[turn == rank, rank] = wait_ms
    extra[::5] = 0.0
    return simulated(steps, len(waits_ms), extra_ms={"data": extra}, seed=seed), extra


def found_in(work):
    return queue_waits(rank_times(work))


@pytest.mark.parametrize(
    ("waits_ms", "longest"),
    [((30.0, 30.0), ()), ((50.0, 13.0), (0,)), ((13.0, 50.0), (1,)), ((30.0, 30.0, 9.0, 30.0), ())],
)
def test_ranks_with_a_third_of_the_longest_waits_wait_about_as_long(waits_ms, longest):
    work, _ = waiting(*waits_ms, steps=120)

    found = found_in(work)
    assert found is not None
    assert found.longest == longest
    assert named_causes(rank_times(work)) == ()


def test_a_rank_that_waits_in_every_step_is_no_queue_that_runs_empty_in_turn():
    extra = np.zeros((STEPS, 2))
    extra[:, 1] = 60.0
    extra[::4, 0] = 12.0
    work = simulated(STEPS, 2, extra_ms={"data": extra})

    assert found_in(work) is None
    assert [(cause.ranks, cause.phase) for cause in named_causes(rank_times(work))] == [
        ((1,), "data")
    ]


@pytest.mark.parametrize("waits_ms", [(30.0, 30.0), (40.0, 12.0), (25.0, 30.0, 35.0, 20.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_waits_cost_what_the_steps_lose_without_them(waits_ms, seed):
    work, extra = waiting(*waits_ms, seed=seed)

    causes = launch_causes(rank_times(work), [])

    assert causes.queues is not None
    step_ms = work.step_times.mean() / 1e6
    assert causes.queues.share * step_ms == pytest.approx(extra.max(axis=1).mean(), rel=0.1)
    parts = [causes.queues, causes.jitter, causes.transfer]
    assert sum(part.share for part in parts) + causes.normal_share == pytest.approx(1, abs=1e-12)
    # The input that is ready takes as long as without any wait.
    ready = launch_causes(rank_times(simulated(STEPS, len(waits_ms), seed=seed)), [])
    assert causes.part("data") == pytest.approx(
        ready.part("data")
        * simulated(STEPS, len(waits_ms), seed=seed).step_times.mean()
        / work.step_times.mean()
        + causes.queues.share,
        abs=0.02,
    )


@pytest.mark.parametrize("seed", range(8))
def test_no_rank_waits_longest_where_each_wait_is_of_any_rank(seed):
    rng = np.random.default_rng(seed)
    extra = np.zeros((STEPS, 4))
    extra[np.arange(0, STEPS, 3), rng.integers(0, 4, len(range(0, STEPS, 3)))] = 50.0
    work = simulated(STEPS, 4, extra_ms={"data": extra}, seed=seed)

    found = found_in(work)
    assert found is None or found.longest == ()


@pytest.mark.parametrize("seed", range(8))
def test_nor_where_the_machine_delays_one_rank_after_the_other_for_a_while(seed):
    rng = np.random.default_rng(seed)
    extra = np.zeros((STEPS, 4))
    for first in range(0, STEPS, 8):
        extra[first : first + 5, rng.integers(4)] = 50.0
    work = simulated(STEPS, 4, extra_ms={"data": extra}, seed=seed)

    found = found_in(work)
    assert found is None or found.longest == ()


def test_one_rank_has_its_waits_in_its_own_time():
    extra = np.zeros((STEPS, 1))
    extra[::3] = 30.0

    assert (
        launch_causes(rank_times(simulated(STEPS, 1, extra_ms={"data": extra})), []).queues is None
    )


def test_ranks_that_wait_in_the_same_steps_do_not_wait_in_turn():
    extra = np.zeros((120, 2))
    extra[::3] = 60.0
    same = rank_times(simulated(120, 2, extra_ms={"data": extra}))
    in_turn = rank_times(waiting(60.0, 60.0, steps=120)[0])

    for times, least, most in ((same, 0.0, 0.2), (in_turn, 0.8, 1.0)):
        causes = launch_causes(times, [])
        assert causes.queues is not None
        assert least * causes.queues.share <= causes.in_turn <= most * causes.queues.share


def loaders(**means):
    """RANK_MACHINE of ranks with the means of their data loaders, by measure."""
    rows = [
        {"pass_id": "p", "segment": "s", "rank": rank, "measure": measure, "mean": mean}
        for measure, of_ranks in means.items()
        for rank, mean in enumerate(of_ranks)
        if mean is not None
    ]
    return declared_rows(RANK_MACHINE, *rows)


def test_batches_are_late_where_most_of_the_wait_is_for_one_that_was_not_ready():
    machine = loaders(
        batch_wait=(0.4, 0.4, 0.4, 0.4),
        empty_queue_wait=(0.3, 0.0, 0.1, 0.3),
        first_batch_wait=(0.0, 0.1, 0.1, 0.0),
        queue_empty=(0.5, 0.0, 0.1, None),
    )

    found = late_batches(machine, ["rank"])
    assert found["late"].tolist() == [True, False, True, True]
    # Without lengths of queues, as without workers, it is unknown.
    assert found["known"].tolist() == [True, True, True, False]
    (times,) = own_times({("p", "s"): simulated(9, 4)}, machine).values()
    assert times.late_batches == {0: True, 1: False, 2: True}
    assert not times.have_batches
    (times,) = own_times({("p", "s"): simulated(9, 4)}, RANK_MACHINE.empty()).values()
    assert (times.late_batches, times.have_batches) == ({}, False)


def test_the_ranks_without_batches_wait_longest_where_the_others_have_some():
    times = rank_times(waiting(50.0, 13.0, steps=120)[0])

    def longest(*late):
        found = queue_waits(replace(times, late_batches=dict(enumerate(late))))
        assert found is not None
        return found.longest

    assert longest() == longest(True, True) == (0,)
    assert longest(False, True) == (1,)
    assert longest(False, False) == ()


def test_a_rank_that_is_late_without_its_waits_for_data_alone_is_none_with_batches():
    # As recorded on busy cores: rank 1 takes batches over as much later as rank 0 computes.
    rng = np.random.default_rng(3)
    extra = np.where(rng.random((120, 2)) < 0.4, 15.0, 0.0) * [1.0, 2.0]
    compute = np.stack([rng.gamma(0.5, 16.0, 120), np.zeros(120)], axis=1)
    work = simulated(120, 2, extra_ms={"data": extra, "forward": compute})
    times = rank_times(work)
    ready = replace(times, late_batches={0: False, 1: False})

    assert [one.ranks for one in named_causes(times)] == [(0,)]
    assert named_causes(ready) == ()
    assert jitter_rank([times], [()]).rank == 0
    assert jitter_rank([ready], [()]) is None
    # With the same waits of both, rank 0 is late.
    extra[:, 1] = extra[::-1, 0]
    alike = rank_times(simulated(120, 2, extra_ms={"data": extra, "forward": compute}))
    late = named_causes(replace(alike, late_batches={0: False, 1: False}))
    assert [one.ranks for one in late] == [(0,)]


def test_events_of_any_rank_stay_with_batches():
    rng = np.random.default_rng(0)
    extra = np.zeros((150, 2))
    for rank in (0, 1):
        extra[rng.choice(150, 9, replace=False), rank] += 120.0
    times = rank_times(simulated(150, 2, extra_ms={"forward": extra}))
    ready = replace(times, late_batches={0: False, 1: False})

    assert [one.ranks for one in named_causes(ready)] == [(0, 1)]
