import pytest

from benchmarks.scripts.fault import Fault


def hit_steps(text, rank, place="data", steps=range(20)):
    fault = Fault.parse(text)
    return [step for step in steps if fault.hits(place, rank, step)]


def test_a_fault_hits_its_ranks_and_its_place():
    assert hit_steps("data:rank=1:ms=5", 1) == list(range(20))
    assert hit_steps("data:rank=1:ms=5", 0) == []
    assert hit_steps("data:rank=1+3:ms=5", 3) == list(range(20))
    assert hit_steps("data:rank=all:ms=5", 7) == list(range(20))
    assert hit_steps("data:rank=1:ms=5", 1, place="forward") == []
    assert hit_steps("", 0) == []


def test_a_fault_hits_every_kth_step_or_all_from_one_on():
    assert hit_steps("data:rank=0:ms=5:every=8", 0) == [7, 15]
    assert hit_steps("data:rank=0:ms=5:from=17", 0) == [17, 18, 19]


@pytest.mark.heavy
def test_chance_is_the_same_for_all_ranks_unless_any_is_meant():
    steps = range(2000)
    of_all = [hit_steps("data:rank=all:ms=5:chance=0.1", rank, steps=steps) for rank in (0, 1)]
    of_any = [hit_steps("data:rank=any:ms=5:chance=0.1", rank, steps=steps) for rank in (0, 1)]

    assert of_all[0] == of_all[1]
    assert of_any[0] != of_any[1]
    assert 140 < len(of_any[0]) < 260


def test_a_wrong_key_is_refused():
    with pytest.raises(ValueError, match="unknown in a fault: size"):
        Fault.parse("data:rank=1:ms=5:size=3")
