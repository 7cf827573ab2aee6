import numpy as np

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, cell_causes
from hvdprof.analyze.ranks.named_cause import NamedCause


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
