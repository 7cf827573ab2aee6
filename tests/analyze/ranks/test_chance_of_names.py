"""The chance that a name carries: what equal ranks would give any of them."""

import numpy as np
import pytest

from hvdprof.analyze.causes.cell_causes import cell_causes
from hvdprof.analyze.ranks.named_cause import FALSE_ALARMS
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.step_works import simulated


def stalls(num_ranks, at, *, rank=0, seed=0):
    """A launch of 60 steps whose rank stalls for 300 ms in some of them."""
    extra = np.zeros((60, num_ranks))
    extra[np.array(at), rank] = 300.0
    return simulated(60, num_ranks, extra_ms={"outside": extra}, seed=seed)


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("at", [(11, 30, 41), (9, 20, 25, 44)])
def test_few_events_of_one_rank_have_the_chance_of_that_many_draws(num_ranks, at):
    (found,) = named_causes(rank_times(stalls(num_ranks, at)))

    assert found.chance == pytest.approx(num_ranks ** (1 - len(at)))


def test_a_single_long_stall_may_be_any_ranks():
    extra = np.zeros((12, 2))
    extra[6, 0] = 500.0
    (found,) = named_causes(rank_times(simulated(12, 2, extra_ms={"outside": extra})))

    assert (found.num_events, found.chance) == (1, 1.0)


def test_launches_that_agree_multiply_their_chances():
    works = [stalls(2, (11, 30, 41), seed=seed) for seed in range(3)]
    (cause,) = cell_causes([named_causes(rank_times(work)) for work in works], 2)

    assert cause.chance == pytest.approx(0.25**3)


@pytest.mark.parametrize("num_launches", [1, 3])
def test_a_rank_that_is_slower_throughout_is_beyond_chance_in_every_launch(num_launches):
    extra = np.zeros((60, 2))
    extra[:, 1] = 30.0
    works = [
        simulated(60, 2, extra_ms={"backward": extra}, seed=seed) for seed in range(num_launches)
    ]
    (cause,) = cell_causes([named_causes(rank_times(work)) for work in works], 2)

    assert 0 < cause.chance <= FALSE_ALARMS


def test_pauses_of_all_ranks_are_no_ones_by_chance():
    extra = np.zeros((60, 2))
    extra[[11, 30, 41]] = 300.0
    (found,) = named_causes(rank_times(simulated(60, 2, extra_ms={"outside": extra})))

    assert found.chance == 0.0
