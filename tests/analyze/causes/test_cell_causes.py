import numpy as np
import pytest

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, cell_causes, with_common_periods
from hvdprof.analyze.ranks.named_cause import IRREGULAR, PERIODIC, NamedCause
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


def named(ranks, *, kind="straggler", phase="data", pattern="persistent", period=float("nan")):
    return NamedCause(
        kind=kind,
        ranks=ranks,
        phase=phase,
        phase_share=1.0,
        pattern=pattern,
        period_steps=period,
        num_events=5,
        first_step=3,
        last_step=9,
        last_delay_ns=float("nan"),
        affected=np.zeros((10, 4), dtype=bool),
    )


def names(found):
    return [(one.kind, one.ranks, one.phase, one.pattern) for one in found]


def test_the_same_in_most_launches_is_one_cause():
    launches = [[named((1,))], [named((1,))], []]

    (found,) = cell_causes(launches, 4)

    assert names([found]) == [("straggler", "1", "data", "persistent")]
    assert [len(own) for own in found.members] == [1, 1, 0]


def test_in_less_than_half_of_the_launches_it_has_no_name():
    assert cell_causes([[named((1,))], [], []], 4) == ()


def test_a_phase_that_noise_blurs_in_one_launch_is_the_same_cause():
    launches = [[named((1,))], [named((1,))], [named((1,), phase="mixed")]]

    (found,) = cell_causes(launches, 4)

    assert found.phase == "data"
    assert all(found.members)


def test_another_phase_in_every_launch_is_named_without_one_being_left_out():
    launches = [[named((1,))], [named((1,), phase="mixed")], [named((1,))], [], []]

    (found,) = cell_causes(launches, 4)

    assert found.phase == "data"
    assert [bool(own) for own in found.members] == [True, True, True, False, False]


def test_rare_delays_of_other_ranks_in_other_launches_are_of_any_rank():
    launches = [[named((rank,), pattern="irregular", phase="outside")] for rank in (0, 2, 3)]

    assert names(cell_causes(launches, 4)) == [("straggler", "any", "outside", "irregular")]


def test_delays_of_all_ranks_in_turn_are_of_any_rank():
    launches = [[named((0, 1, 2, 3), pattern="irregular")]] * 2

    assert names(cell_causes(launches, 4))[0][1] == "any"


def test_persistent_stragglers_of_other_ranks_in_other_launches_have_no_name():
    assert cell_causes([[named((rank,))] for rank in (0, 1, 2)], 4) == ()


def test_two_causes_of_one_rank_stay_two():
    own = [named((0,)), named((0,), phase="outside", pattern="periodic", period=20.0)]

    found = cell_causes([own, own], 2)

    assert names(found) == [
        ("straggler", "0", "data", "persistent"),
        ("straggler", "0", "outside", "periodic"),
    ]
    assert found[1].period_steps == 20


def test_a_pause_is_of_all_ranks():
    (found,) = cell_causes([[named((0, 1), kind="pause", pattern="periodic", period=50.0)]], 2)

    assert found.ranks == "all"


def test_a_rank_and_its_host_are_two_causes():
    own = [named((1, 3)), named((2,), phase="forward")]

    assert [one.ranks for one in cell_causes([own], 4)] == ["1, 3", "2"]


def test_there_are_at_most_as_many_as_can_be_replayed():
    own = [named((rank,)) for rank in range(8)]

    assert len(cell_causes([own], 16)) == MOST_NAMED
