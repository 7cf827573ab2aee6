"""Small values among ranks over the Horovod of TensorFlow, which has no handles to poll."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from hvdprof.collect.clock import horovod_group
from hvdprof.collect.clock.horovod_group import rank_group
from hvdprof.collect.identity import Identity, identity_from_horovod, loaded_horovod


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
    return rank_group(Identity(1, 2, 1, 2)).all_gather(value)


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
    monkeypatch.setattr(horovod_group, "GATHER_TIMEOUT_S", 0.1)

    with pytest.raises(OSError, match="not all ranks took part"):
        gather(1)
    never.set()


@pytest.mark.torch
def test_a_peer_that_is_lost_meanwhile_is_a_failure_of_the_exchange(monkeypatch):
    class Lost:
        is_initialized = staticmethod(lambda: True)
        poll = staticmethod(lambda handle: True)
        allgather_async = staticmethod(lambda tensor, name: 1)

        @staticmethod
        def synchronize(handle):
            raise RuntimeError("Horovod has been shut down")

    monkeypatch.setitem(sys.modules, "horovod.torch", Lost())
    group = rank_group(Identity(0, 2, 0, 2))
    with pytest.raises(OSError, match="did not exchange anything: Horovod has been shut down"):
        group.all_gather("mine")
