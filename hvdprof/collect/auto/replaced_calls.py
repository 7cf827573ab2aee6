"""The calls of Horovod and of torch that are replaced to see a training, and how.

They are replaced for the life of the process.
"""

import functools
import inspect
import queue
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

from hvdprof.collect.devices.copy_source import BATCH_WAITS

BLOCKING = (
    *("allreduce", "allreduce_", "grouped_allreduce", "grouped_allreduce_", "allgather"),
    *("grouped_allgather", "broadcast", "broadcast_", "alltoall", "reducescatter"),
    *("grouped_reducescatter", "synchronize", "barrier", "join", "add_process_set"),
    *("remove_process_set", "broadcast_parameters", "broadcast_optimizer_state"),
    *("broadcast_object", "allgather_object"),
)
Context = AbstractContextManager[None]


def tensor_name_of(
    call: Callable[..., object],
) -> Callable[[Sequence[object], Mapping[str, object]], str]:
    """A function from the arguments of a call to the name of its tensor, empty without one."""
    try:
        parameters = list(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        parameters = []
    place = parameters.index("name") if "name" in parameters else sys.maxsize

    def tensor_name(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        name = args[place] if len(args) > place else kwargs.get("name")
        return name if isinstance(name, str) else ""

    return tensor_name


class TorchRecording(Protocol):
    """What records these calls."""

    def is_here(self) -> bool:
        """Whether this thread is recorded right now."""

    def fetching(self) -> Context:
        """The rank waits for its next batch."""

    def fetched(self, batch: object, iterator: object) -> None:
        """A batch has come from an iterator of a data loader."""

    def exhausted(self, iterator: object) -> None:
        """An iterator of a data loader has no more batches."""

    def computes_gradients(self, *, accumulates: bool) -> Context:
        """A backward pass, into the gradients of parameters or, by ``autograd.grad``, elsewhere."""

    def scaled_update(self, optimizer: object) -> Context:
        """A ``GradScaler`` updates, or skips the update where gradients are not finite."""


def hook_torch(torch: ModuleType, recording: TorchRecording) -> None:
    """Put the contexts of a recording around the calls of its thread from here on."""
    _time_batches(torch.utils.data.dataloader._BaseDataLoaderIter, recording)
    # A thread that prefetches hands its batches over in a queue.
    _time_queues(queue.Queue, recording)
    _time_gradients(torch.autograd, recording)
    # Also where the script imported a scaler by a name of its own.
    for home in (torch.amp, torch.cuda.amp):
        scaler = getattr(home, "GradScaler", None)
        if scaler is not None and "step" in vars(scaler):
            _time_scaled_updates(scaler, recording)


def _time_batches(iterator: Any, recording: TorchRecording) -> None:
    fetch = iterator.__next__

    @functools.wraps(fetch)
    def timed_fetch(own: object) -> object:
        if not recording.is_here():
            return fetch(own)
        with recording.fetching():
            BATCH_WAITS.begins(own)
            try:
                batch = fetch(own)
            except StopIteration:
                recording.exhausted(own)
                raise
            BATCH_WAITS.ends()
        recording.fetched(batch, own)
        return batch

    iterator.__next__ = timed_fetch


def _time_queues(kind: Any, recording: TorchRecording) -> None:
    get = kind.get

    @functools.wraps(get)
    def timed_get(*args: object, **kwargs: object) -> object:
        if not recording.is_here():
            return get(*args, **kwargs)
        with recording.fetching():
            return get(*args, **kwargs)

    kind.get = timed_get


def _time_gradients(autograd: Any, recording: TorchRecording) -> None:
    # Both `backward` and `grad` end there; a script may have imported these by their names.
    name = "_engine_run_backward"
    if not hasattr(autograd, name):
        name = "backward"
    run = getattr(autograd, name)

    @functools.wraps(run)
    def timed_run(*args: object, **kwargs: object) -> object:
        if not recording.is_here():
            return run(*args, **kwargs)
        with recording.computes_gradients(accumulates=bool(kwargs.get("accumulate_grad", True))):
            return run(*args, **kwargs)

    setattr(autograd, name, timed_run)


def _time_scaled_updates(scaler: Any, recording: TorchRecording) -> None:
    step = scaler.step

    @functools.wraps(step)
    def timed_step(own: object, optimizer: object, *args: object, **kwargs: object) -> object:
        if not recording.is_here():
            return step(own, optimizer, *args, **kwargs)
        with recording.scaled_update(optimizer):
            return step(own, optimizer, *args, **kwargs)

    scaler.step = timed_step
