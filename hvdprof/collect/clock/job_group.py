"""The ranks of the job, connected by the engine that the script has initialised.

What is asked of ``torch.distributed`` is here, to exchange small values; of Horovod, also its
timeline.
"""

import datetime as dt
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Protocol, TypeVar

from hvdprof.collect.clock.clock_exchange import AllGather, RankGroup, single_rank
from hvdprof.collect.host_facts import Identity, loaded_horovod, loaded_torch_distributed

T = TypeVar("T")

GATHER_TIMEOUT_S = 60.0

_PREFIX = "hvdprof"
_WITHOUT_STORE = "mpi"
_TURNS = itertools.count()

_MESSAGE_BYTES = 4096
_POLL_S = 0.001
_EXCHANGE = "hvdprof.exchange"


def rank_group(identity: Identity) -> RankGroup:
    """The ranks of the job, over Horovod, else ``torch.distributed``, whichever is initialised.

    Raises:
        OSError: There are more ranks, but neither is initialised in this process.
    """
    distributed = loaded_torch_distributed()
    if identity.size > 1 and distributed is not None and loaded_horovod() is None:
        gather = gather_over_store(distributed)
        return RankGroup(identity.rank, identity.size, gather)
    return horovod_ranks(identity)


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
        return _gather_in_store(store, [f"{turn}/{number}" for number in range(size)], rank, value)

    return all_gather


def _gather_in_store(store: Store, names: list[str], rank: int, value: T) -> list[T]:
    try:
        store.set(names[rank], json.dumps(value))
        store.wait(names, dt.timedelta(seconds=GATHER_TIMEOUT_S))
        return [json.loads(store.get(name)) for name in names]
    except RuntimeError as error:
        raise OSError(
            f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
            "is HVDPROF_RECORDER_DIR set on every host?"
        ) from error


def horovod_ranks(identity: Identity) -> RankGroup:
    """The ranks of the job, connected by Horovod; a group of one rank needs no Horovod.

    Raises:
        OSError: There are more ranks, but Horovod is not initialised in this process.
    """
    if identity.size == 1:
        return single_rank()
    hvd = loaded_horovod()
    if hvd is None:
        raise OSError("Horovod is not initialised: call start() after hvd.init()")

    def all_gather(value: T, /) -> list[T]:
        return _all_gather(hvd, value)

    return RankGroup(identity.rank, identity.size, all_gather)


def start_timeline(path: str) -> None:
    """Let Horovod write its timeline from here on; every rank calls it, rank 0 writes.

    It marks the cycles of Horovod's loop, 60 kB per second at 1 ms: a replay needs their phase.

    Raises:
        OSError: Horovod is not initialised in this process.
        ValueError: ``HOROVOD_TIMELINE`` was not set when Horovod was initialised.
    """
    _required().start_timeline(path, mark_cycles=True)


def stop_timeline() -> None:
    """End the timeline; returns when the file is complete.

    Raises:
        OSError: Horovod is not initialised in this process.
        ValueError: ``HOROVOD_TIMELINE`` was not set when Horovod was initialised.
    """
    _required().stop_timeline()


def _all_gather(hvd: ModuleType, value: T) -> list[T]:
    # Not allgather_object: that waits forever when one rank has no recorder, for instance
    # because its environment was not passed to its host.
    text = json.dumps(value).encode("utf-8")
    if len(text) > _MESSAGE_BYTES:
        raise OSError(f"a message of {len(text)} bytes is too long for the exchange")
    gather = _gather_tensorflow if hasattr(hvd, "DistributedGradientTape") else _gather_torch
    return [json.loads(row) for row in gather(hvd, text.ljust(_MESSAGE_BYTES))]


def _gather_torch(hvd: ModuleType, text: bytes) -> list[bytes]:
    torch = sys.modules["torch"]
    message = torch.tensor(list(text), dtype=torch.uint8)
    deadline_s = time.monotonic() + GATHER_TIMEOUT_S
    try:
        handle = hvd.allgather_async(message.unsqueeze(0), name=_EXCHANGE)
        while not hvd.poll(handle):
            if time.monotonic() > deadline_s:
                raise _incomplete()
            time.sleep(_POLL_S)
        return [bytes(row.tolist()) for row in hvd.synchronize(handle)]
    except (RuntimeError, ValueError) as error:
        # A peer is lost (the script meets that too) or has joined.
        raise OSError(f"Horovod did not exchange anything: {error}") from error


def _gather_tensorflow(hvd: ModuleType, text: bytes) -> list[bytes]:
    # There is no handle to poll, and a function may be traced here, within which nothing runs.
    tf = sys.modules["tensorflow"]
    results: list[bytes | BaseException] = []

    def gather() -> None:
        try:
            message = tf.constant([list(text)], dtype=tf.uint8)
            rows = hvd.mpi_ops.allgather(message, name=_EXCHANGE).numpy()
            results.extend(row.tobytes() for row in rows)
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=gather, name="hvdprof exchange", daemon=True)
    thread.start()
    thread.join(GATHER_TIMEOUT_S)
    if thread.is_alive():
        raise _incomplete()
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise OSError(str(failures[0])) from failures[0]
    return [result for result in results if isinstance(result, bytes)]


def _incomplete() -> OSError:
    return OSError(
        f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
        "is HVDPROF_RECORDER_DIR set on every host?"
    )


def _required() -> ModuleType:
    hvd = loaded_horovod()
    if hvd is None:
        raise OSError("Horovod is not initialised in this process")
    return hvd
