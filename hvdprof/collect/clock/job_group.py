"""The ranks of the job, connected by the engine that the script has initialised.

What is asked of ``torch.distributed`` is here, to exchange small values; of Horovod, in
``horovod_group``.
"""

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Protocol, TypeVar

from hvdprof.collect.clock import horovod_group
from hvdprof.collect.clock.clock_exchange import AllGather, RankGroup
from hvdprof.collect.identity import Identity, loaded_horovod, loaded_torch_distributed

T = TypeVar("T")

GATHER_TIMEOUT_S = 60.0

_PREFIX = "hvdprof"
_WITHOUT_STORE = "mpi"
_TURNS = itertools.count()


def rank_group(identity: Identity) -> RankGroup:
    """The ranks of the job, over Horovod, else ``torch.distributed``, whichever is initialised.

    Raises:
        OSError: There are more ranks, but neither is initialised in this process.
    """
    distributed = loaded_torch_distributed()
    if identity.size > 1 and distributed is not None and loaded_horovod() is None:
        gather = gather_over_store(distributed)
        return RankGroup(identity.rank, identity.size, gather)
    return horovod_group.rank_group(identity)


class Store(Protocol):
    """The key-value store of a process group."""

    def set(self, key: str, value: str, /) -> None:
        """Store a value."""

    def wait(self, keys: list[str], timeout: dt.timedelta, /) -> None:
        """Wait until the store holds all keys."""

    def get(self, key: str, /) -> bytes:
        """The value of a key."""


def gather_over_store(distributed: ModuleType, turns: Iterator[int] = _TURNS) -> AllGather:
    """An ``all_gather`` for ``RankGroup`` through the key-value store of the process group.

    Not ``all_gather_object``: that waits for half an hour where one rank has no recorder.

    Args:
        distributed: The module ``torch.distributed``.
        turns: Numbers the calls of this process; every rank makes the same calls.

    Raises:
        OSError: The process group has no store: PyTorch makes none for its backend ``mpi``. A
            collective instead would pair with one of the script where a rank has no recorder.
    """
    if distributed.get_backend() == _WITHOUT_STORE:
        raise OSError(
            'init_process_group("mpi") makes no key-value store to compare the clocks of hosts '
            "through; the backends gloo and nccl do"
        )
    store = distributed.PrefixStore(_PREFIX, distributed.distributed_c10d._get_default_store())
    rank, size = distributed.get_rank(), distributed.get_world_size()

    def all_gather(value: T, /) -> list[T]:
        turn = next(turns)
        return _all_gather(store, [f"{turn}/{number}" for number in range(size)], rank, value)

    return all_gather


def _all_gather(store: Store, names: list[str], rank: int, value: T) -> list[T]:
    try:
        store.set(names[rank], json.dumps(value))
        store.wait(names, dt.timedelta(seconds=GATHER_TIMEOUT_S))
        return [json.loads(store.get(name)) for name in names]
    except RuntimeError as error:
        raise OSError(
            f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
            "is HVDPROF_RECORDER_DIR set on every host?"
        ) from error
