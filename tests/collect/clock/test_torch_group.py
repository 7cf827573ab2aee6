"""Small values passed around over the store of torch.distributed."""

import itertools
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch

from hvdprof.collect.clock import job_group
from hvdprof.collect.clock.job_group import gather_over_store

pytestmark = pytest.mark.torch


def ranks_of(size: int):
    """The gathers of all ranks, each with a count of its own as if in its own process."""
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    store.set_timeout(timedelta(seconds=10))
    for rank in range(size):
        yield gather_over_store(distributed_with(store, rank, size), itertools.count())


def distributed_with(store, rank: int, size: int, backend: str = "gloo") -> SimpleNamespace:
    """What is asked of torch.distributed."""
    return SimpleNamespace(
        PrefixStore=torch.distributed.PrefixStore,  # type: ignore[attr-defined]
        get_backend=lambda: backend,
        distributed_c10d=SimpleNamespace(_get_default_store=lambda: store),
        get_rank=lambda: rank,
        get_world_size=lambda: size,
    )


def test_every_rank_gets_the_values_of_all_in_every_turn():
    found: dict[int, list] = {}

    def run(rank, gather):
        found[rank] = [gather({"rank": rank, "turn": turn}) for turn in range(3)]

    threads = [
        threading.Thread(target=run, args=(rank, gather)) for rank, gather in enumerate(ranks_of(3))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    expected = [[{"rank": rank, "turn": turn} for rank in range(3)] for turn in range(3)]
    assert found == dict.fromkeys(range(3), expected)


def test_rank_that_does_not_take_part_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(job_group, "GATHER_TIMEOUT_S", 0.2)
    first, _ = ranks_of(2)
    with pytest.raises(OSError, match="not all ranks took part within 0 s"):
        first("alone")


def test_the_mpi_backend_has_no_store_to_gather_over():
    # As init_process_group("mpi") makes it: every call fails at once.
    placeholder = torch.distributed.Store()  # type: ignore[attr-defined]
    with pytest.raises(OSError, match=r'init_process_group\("mpi"\) makes no key-value store'):
        gather_over_store(distributed_with(placeholder, 0, 2, "mpi"))
