"""By what the ranks of a job are connected."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from hvdprof.collect.clock import job_group
from hvdprof.collect.clock.job_group import horovod_ranks, rank_group
from hvdprof.collect.host_facts import Identity, identity_from_horovod, loaded_horovod

TWO = Identity(rank=1, size=2, local_rank=1, local_size=2)


@pytest.fixture
def loaded(monkeypatch):
    """Puts modules in place of Horovod's and PyTorch's, as a script would have imported them."""

    def load(*, horovod: bool, distributed: bool):
        module = SimpleNamespace(is_initialized=lambda: horovod)
        monkeypatch.setitem(sys.modules, "horovod.torch", module)
        calls: list[str] = []

        def gather_over(name: str):
            def gather(*arguments):
                calls.append(name)
                return [arguments[-1]]

            return gather

        monkeypatch.setattr(job_group, "_all_gather", gather_over("horovod"))
        monkeypatch.setattr(job_group, "gather_over_store", lambda _: gather_over("store"))
        found = object() if distributed else None
        monkeypatch.setattr(job_group, "loaded_torch_distributed", lambda: found)
        return calls

    return load


@pytest.mark.parametrize(
    ("horovod", "distributed", "used"),
    [(True, False, "horovod"), (True, True, "horovod"), (False, True, "store")],
)
def test_horovod_goes_before_torch_distributed(loaded, horovod, distributed, used):
    calls = loaded(horovod=horovod, distributed=distributed)
    group = rank_group(TWO)
    assert (group.rank, group.size) == (1, 2)
    group.all_gather("value")
    assert calls == [used]


def test_one_rank_needs_no_peer(loaded):
    calls = loaded(horovod=False, distributed=True)
    assert rank_group(Identity(0, 1, 0, 1)).all_gather("alone") == ["alone"]
    assert calls == []


def test_ranks_without_a_connection_are_reported(loaded):
    loaded(horovod=False, distributed=False)
    with pytest.raises(OSError, match="Horovod is not initialised"):
        rank_group(TWO)


class Horovod:
    """The module ``horovod.tensorflow`` of rank 1 of 2, whose neighbour says ``other``."""

    DistributedGradientTape = None

    def __init__(self, other: bytes):
        self.other = np.frombuffer(other.ljust(4096), dtype=np.uint8)
        self.mpi_ops = SimpleNamespace(allgather=self.allgather)
        self.is_initialized = lambda: True
        self.rank = self.local_rank = lambda: 1
        self.size = self.local_size = lambda: 2

    def allgather(self, message, name):
        rows = np.stack([self.other, message[0]])
        return SimpleNamespace(numpy=lambda: rows)


@pytest.fixture
def horovod(monkeypatch):
    horovod = Horovod(b'{"host": "a"}')
    tf = SimpleNamespace(constant=lambda rows, dtype: np.array(rows, dtype), uint8=np.uint8)
    monkeypatch.delitem(sys.modules, "horovod.torch", raising=False)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", horovod)
    monkeypatch.setitem(sys.modules, "tensorflow", tf)
    return horovod


def gather(value):
    return horovod_ranks(Identity(1, 2, 1, 2)).all_gather(value)


def test_it_is_found_and_says_which_rank_this_is(horovod):
    assert loaded_horovod() is horovod
    assert identity_from_horovod() == Identity(1, 2, 1, 2)


def test_a_module_that_is_being_imported_is_not_asked(horovod, monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", SimpleNamespace())

    assert loaded_horovod() is None


def test_values_come_back_by_rank(horovod):
    assert gather(["b", 5]) == [{"host": "a"}, ["b", 5]]


def test_a_failure_of_horovod_is_reported(horovod):
    def fail(*_, **__):
        raise RuntimeError("Horovod has been shut down")

    horovod.mpi_ops.allgather = fail
    with pytest.raises(OSError, match="shut down"):
        gather(1)


def test_a_rank_that_does_not_come_is_not_waited_for_without_end(horovod, monkeypatch):
    never = threading.Event()
    horovod.mpi_ops.allgather = lambda *_, **__: never.wait(20)
    monkeypatch.setattr(job_group, "GATHER_TIMEOUT_S", 0.1)

    with pytest.raises(OSError, match="not all ranks took part"):
        gather(1)
    never.set()


@pytest.mark.torch
def test_a_peer_that_is_lost_meanwhile_is_a_failure_of_the_exchange(monkeypatch):
    pytest.importorskip("torch")

    class Lost:
        is_initialized = staticmethod(lambda: True)
        poll = staticmethod(lambda handle: True)
        allgather_async = staticmethod(lambda tensor, name: 1)

        @staticmethod
        def synchronize(handle):
            raise RuntimeError("Horovod has been shut down")

    monkeypatch.setitem(sys.modules, "horovod.torch", Lost())
    group = horovod_ranks(Identity(0, 2, 0, 2))
    with pytest.raises(OSError, match="did not exchange anything: Horovod has been shut down"):
        group.all_gather("mine")
