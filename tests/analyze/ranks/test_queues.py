"""Input queues that run empty: whose waits they are, and what they cost."""

import numpy as np
import pytest

from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.queues import queue_waits
from hvdprof.analyze.ranks.rank_times import rank_times
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
