"""Periods that only the launches of a run together show."""

import numpy as np
import pytest

from hvdprof.analyze.causes.cell_causes import cell_causes
from hvdprof.analyze.causes.common_periods import with_common_periods
from hvdprof.analyze.ranks.named_cause import IRREGULAR, PERIODIC
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.step_works import simulated


def pausing(num_steps, num_ranks, pauses, *, seed=0, phase="outside"):
    """A launch whose rank 0 pauses for 0.5 s before these steps."""
    extra = np.zeros((num_steps, num_ranks))
    extra[np.array(pauses), 0] = 500.0
    return simulated(num_steps, num_ranks, extra_ms={phase: extra}, seed=seed)


def cell(*works):
    named = [named_causes(rank_times(work)) for work in works]
    return cell_causes(named, len(works[0].ranks)), works


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_two_checkpoints_of_each_launch_are_periodic_together(num_ranks):
    works = [pausing(40, num_ranks, (12, 27), seed=seed) for seed in range(3)]
    (before,) = cell(*works)[0]
    assert before.pattern == IRREGULAR

    ((after,),) = with_common_periods([cell(*works)])
    assert (after.pattern, after.period_steps) == (PERIODIC, 15.0)
    assert np.isnan(after.epoch_steps)
    assert [[one.num_events for one in own] for own in after.members] == [[2]] * 3


def test_the_period_of_the_baseline_explains_the_pauses_of_a_larger_cell():
    baseline = cell(pausing(120, 1, range(14, 120, 15)))
    larger = cell(pausing(43, 2, (14, 29)))
    assert larger[0][0].pattern == IRREGULAR

    _, (found,) = with_common_periods([baseline, larger])
    assert (found.ranks, found.pattern, found.period_steps) == ("0", PERIODIC, 15.0)


@pytest.mark.parametrize("pauses", [(14, 30), (9, 17)])
def test_other_steps_or_another_phase_than_the_baseline_have_no_period(pauses):
    baseline = cell(pausing(120, 1, range(14, 120, 15)))
    (_, (found,)) = with_common_periods([baseline, cell(pausing(43, 2, pauses))])
    assert found.pattern == IRREGULAR

    of_data = cell(pausing(43, 2, (14, 29), phase="data"))
    (_, (found,)) = with_common_periods([baseline, of_data])
    assert found.pattern == IRREGULAR


def test_a_counter_that_restarts_with_each_epoch_has_a_period_within_epochs():
    steps = np.arange(1, 109)
    pauses = np.flatnonzero(steps % 36 % 10 == 9)
    works = [pausing(len(steps), 2, pauses)]
    assert cell(*works)[0][0].pattern == IRREGULAR

    ((found,),) = with_common_periods([cell(*works)])
    assert (found.pattern, found.period_steps, found.epoch_steps) == (PERIODIC, 10.0, 36.0)


def test_pauses_at_random_keep_their_number():
    rng = np.random.default_rng(3)
    works = [
        pausing(60, 2, np.sort(rng.choice(np.arange(5, 60), 4, replace=False)), seed=seed)
        for seed in range(2)
    ]
    ((found,),) = with_common_periods([cell(*works)])
    assert found.pattern == IRREGULAR
