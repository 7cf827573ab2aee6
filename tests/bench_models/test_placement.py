import os

import pytest

from hvdprof.bench_models import placement
from hvdprof.bench_models.placement import physical_first, pin_to_own_cores


@pytest.fixture
def affinity(monkeypatch):
    """The cores that the process may use, as a list that pinning replaces."""
    cores = {2, 3, 5, 7}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)

    def bind(_, chosen) -> None:
        cores.intersection_update(chosen)

    monkeypatch.setattr(os, "sched_setaffinity", bind)
    monkeypatch.setattr(placement, "siblings_of", str)
    return cores


@pytest.mark.parametrize(
    ("local_rank", "num_threads", "own"),
    [(0, 1, {2}), (3, 1, {7}), (1, 2, {5, 7}), (0, 4, {2, 3, 5, 7})],
)
def test_each_rank_gets_cores_of_its_own(affinity, local_rank, num_threads, own):
    assert pin_to_own_cores(local_rank, num_threads)
    assert affinity == own


@pytest.mark.parametrize(("local_rank", "num_threads"), [(4, 1), (1, 3), (0, 5)])
def test_too_few_cores_leave_the_rank_unpinned(affinity, capsys, local_rank, num_threads):
    assert not pin_to_own_cores(local_rank, num_threads)
    assert affinity == {2, 3, 5, 7}
    assert f"local rank {local_rank} is not pinned" in capsys.readouterr().err


def test_a_mask_of_just_the_right_size_is_the_ranks_own(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {6, 7})
    assert pin_to_own_cores(3, 2)


def test_second_hardware_threads_come_last():
    assert physical_first({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}) == [0, 2, 1, 3]
    assert physical_first({0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}) == [0, 1, 4, 5]
