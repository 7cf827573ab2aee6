"""A rank that alone waits for data or spends time outside all phases, and is no named straggler."""

import numpy as np
import pytest

from hvdprof.analyze.causes.cell_causes import cell_causes
from hvdprof.analyze.causes.delays import COMPUTE, DATA, OUTSIDE
from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.causes.rank_alone import ranks_alone
from hvdprof.analyze.ranks.names import named_causes
from tests.builders.analysis import autoregressive
from tests.builders.step_works import simulated

EXTRA_MS = 40.0
PART_OF = {"data": DATA, "outside": OUTSIDE, "before_update": OUTSIDE}


def drift_ms(num_steps, num_ranks, seed, size=10.0):
    """Backward that drifts apart, so that lateness in few steps is not significant."""
    rng = np.random.default_rng(seed)
    return size * np.array([autoregressive(rng, num_steps, 0.95) for _ in range(num_ranks)]).T


def pair(num_steps, num_ranks, phase, *, seed=0, drift=True, extra_ms=EXTRA_MS):
    """A launch in which rank 1 alone takes longer in a phase, and the same without it."""
    other = {"backward": drift_ms(num_steps, num_ranks, seed)} if drift else {}
    extra = np.zeros((num_steps, num_ranks))
    extra[:, 1] = extra_ms
    return (
        simulated(num_steps, num_ranks, extra_ms={**other, phase: extra}, seed=seed),
        simulated(num_steps, num_ranks, extra_ms=other, seed=seed),
    )


def split(work, found):
    return launch_causes(work, [], {one.part: one.delays[0] for one in found})


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("phase", list(PART_OF))
def test_a_rank_alone_costs_what_the_step_loses_without_it(num_ranks, phase):
    # Too few steps for a named straggler.
    work, pure = pair(6, num_ranks, phase, drift=False)
    assert named_causes(work) == ()

    found = ranks_alone([work], ())
    assert [(one.rank, one.part) for one in found] == [(1, PART_OF[phase])]

    causes = split(work, found)
    step_ns = work.step_times.mean()
    truth = 1 - pure.step_times.mean() / step_ns
    cost = causes.alone[PART_OF[phase]]
    assert truth * step_ns == pytest.approx(EXTRA_MS * 1e6, rel=0.2)
    assert cost.share == pytest.approx(truth, rel=0.15)
    assert cost.saved_if_removed == pytest.approx(truth, rel=0.01)
    # The others wait for data and compute as in the launch without it.
    of_pure = launch_causes(pure, [])
    for part in (DATA, COMPUTE, OUTSIDE):
        before = of_pure.normal[part] * pure.step_times.mean()
        assert causes.normal[part] * step_ns == pytest.approx(before, rel=0.03, abs=0.1e6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("phase", list(PART_OF))
def test_a_rank_alone_among_ranks_that_drift_saves_the_truth_and_sums_exactly(phase, seed):
    work, pure = pair(12, 2, phase, seed=seed)
    causes = split(work, ranks_alone([work], ()))

    credits = [*causes.alone.values(), causes.jitter, causes.transfer]
    assert sum(one.share for one in credits) + causes.normal_share == pytest.approx(1, abs=1e-12)
    truth = 1 - pure.step_times.mean() / work.step_times.mean()
    assert causes.alone[PART_OF[phase]].saved_if_removed == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_clean_twin_names_no_rank(num_ranks, seed):
    twins = [pair(30, num_ranks, "data", seed=seed + 10 * number)[1] for number in range(3)]

    assert ranks_alone(twins, ()) == ()
    assert ranks_alone(twins[:1], ()) == ()


def test_what_all_ranks_spend_is_that_of_no_rank_alone():
    every = simulated(30, 4, extra_ms={"data": 40.0, "outside": 20.0})

    assert ranks_alone([every], ()) == ()


def test_another_rank_in_every_launch_is_no_rank_alone():
    works = []
    for number in range(4):
        extra = np.zeros((30, 4))
        extra[:, number] = 12.0
        works.append(simulated(30, 4, extra_ms={"data": extra}, seed=number))

    assert ranks_alone(works, ()) == ()
    assert [one.rank for one in ranks_alone(works[1:2], ())] == [1]


def test_a_named_straggler_is_no_rank_alone():
    work, _ = pair(60, 4, "data", drift=False)
    named = cell_causes([named_causes(work)], 4)
    assert [cause.ranks for cause in named] == ["1"]

    assert ranks_alone([work], named) == ()


def test_pauses_of_all_ranks_hide_no_rank_alone():
    num_steps = 60
    extra, pause = np.zeros((num_steps, 2)), np.zeros((num_steps, 2))
    extra[:, 1], pause[9::10] = 12.0, 400.0
    backward = drift_ms(num_steps, 2, 3, size=30.0)
    work = simulated(
        num_steps, 2, extra_ms={"data": extra, "outside": pause, "backward": backward}, seed=3
    )
    named = cell_causes([named_causes(work)], 2)
    assert [cause.ranks for cause in named] == ["all"]

    (found,) = ranks_alone([work], named)
    assert (found.rank, found.part) == (1, DATA)
    assert np.mean(found.delays[0][0].delay_ns) == pytest.approx(12e6, rel=0.05)
