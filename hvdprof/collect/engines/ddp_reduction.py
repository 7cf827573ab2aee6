"""Gradients that torch itself reduces: DDP in ``backward()``, FSDP2 by groups of modules.

DDP has no call in which it waits: it asks the autograd engine for a callback at the end of
``backward()``, and in it waits for every bucket and copies it into the gradients. Such callbacks
run one after the other in the order in which they were queued, once backward has computed
everything. So one callback is queued before DDP's and one after it.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol, TypeGuard

from hvdprof.collect.engines.torch_collectives import COLLECTIVES
from hvdprof.collect.engines.torch_types import (
    Model,
    Optimizer,
    Parameter,
    Reduction,
    parameters_of,
)
from hvdprof.collect.guarded_context import harmless
from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE, BucketMarks, StepMarks, WaitMarks
from hvdprof.collect.steps.time_source import Mark
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE

Queue = Callable[[Callable[[], None]], None]

_HALF_WIDTH_HOOKS = ("fp16_compress", "bf16_compress")
_HALF_WIDTH = 2

_WRAPPED = "FSDPModule"
_SHARDED_IN = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")


class ProcessGroup(Protocol):
    """A process group of torch."""

    def size(self) -> int:
        """Number of ranks."""


class InnerModel(Model, Protocol):
    """A model that has been wrapped."""

    training: bool


class DdpModel(Protocol):
    """A model inside ``DistributedDataParallel``."""

    module: InnerModel
    process_group: ProcessGroup


class GradBucket(Protocol):
    """``torch.distributed.GradBucket``."""

    def parameters(self) -> Iterable[Parameter]:
        """The parameters whose gradients it holds."""


class Reduced(Protocol):
    """``torch.futures.Future`` of a bucket."""

    def value(self) -> object:
        """The reduced bucket."""

    def then(self, callback: Callable[["Reduced"], object], /) -> "Reduced":
        """A future that the callback completes."""


CommHook = Callable[..., Reduced]


def is_ddp(model: object) -> TypeGuard[DdpModel]:
    """Whether a model is wrapped by ``torch.nn.parallel.DistributedDataParallel``."""
    return hasattr(model, "reducer") and hasattr(model, "process_group")


class DdpReduction(Reduction):
    """The reduction by ``DistributedDataParallel``.

    Args:
        model: The wrapped model; it is not kept alive.
        queue: Asks the running ``backward()`` for a callback at its end; torch's own if not given.
    """

    def __init__(self, model: DdpModel, queue: Queue | None = None) -> None:
        super().__init__(model.module)
        self._model = weakref.ref(model)
        self._queue = queue or _end_of_backward
        self._begin: Mark | None = None

    def sent_bytes(self, parameter: Parameter) -> int:
        """The bytes after compression by DDP's own hooks; any other hook counts as none."""
        model = self._model()
        if model is None or model.process_group.size() == 1 or id(parameter) not in self._names:
            return 0
        hooks = [getattr(hook, "__name__", "") for hook, _ in getattr(model, "_comm_hooks", ())]
        halved = any(name.startswith(_HALF_WIDTH_HOOKS) for name in hooks)
        width = parameter.element_size()
        return parameter.numel() * (min(width, _HALF_WIDTH) if halved else width)

    def on_ready(self, marks: StepMarks) -> Callable[[], None]:
        """Called at the first gradient: surrounds DDP's callback of this backward with two others.

        DDP asks for its callback at the last gradient, and is called for a gradient after this.
        """
        wait = WaitMarks(GRAD_REDUCE, num_ranks=self._num_ranks())

        def expect() -> None:
            if self._synchronizes():
                marks.is_wait_expected = True
                self._queue(begin_wait)

        def begin() -> None:
            self._begin = marks.enter(COLLECTIVE_PHASE)
            marks.engine_waits(1)
            self._queue(end_wait)

        def end() -> None:
            marks.is_wait_expected = False
            marks.engine_waits(-1)
            marks.add_blocked(self._begin, marks.leave(COLLECTIVE_PHASE), wait)

        begin_wait, end_wait = harmless(marks, begin), harmless(marks, end)
        return expect

    def _num_ranks(self) -> int:
        model = self._model()
        return 0 if model is None else int(model.process_group.size())

    def _synchronizes(self) -> bool:
        # False in a backward of which the forward pass was within no_sync().
        model = self._model()
        return model is not None and getattr(model, "require_forward_param_sync", True)


def recorded_hook(hook: CommHook, marks: StepMarks, now: Callable[[], Mark]) -> CommHook:
    """A communication hook of DDP that also marks begin and end of each bucket's reduction."""

    def submit(bucket: GradBucket) -> BucketMarks:
        one = BucketMarks(tuple(bucket.parameters()), now())
        marks.buckets.append(one)
        return one

    submitted, take = harmless(marks, submit), harmless(marks, now)

    # DDP reads the name and the signature of a hook.
    @functools.wraps(hook)
    def recording(state: object, bucket: GradBucket) -> Reduced:
        if not marks.is_open:
            return hook(state, bucket)
        one = submitted(bucket)

        def reduced(done: Reduced) -> object:
            if one is not None:
                one.end = take()
            return done.value()

        return hook(state, bucket).then(reduced)

    return recording


def _end_of_backward(callback: Callable[[], None]) -> None:
    sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(callback)


def is_sharded(kind: type) -> bool:
    """Whether ``fully_shard`` made the class of a module."""
    return any(base.__name__ == _WRAPPED for base in kind.__mro__)


def is_fsdp(model: object, optimizer: Optimizer) -> bool:
    """Whether ``fully_shard`` was called on a model, or on modules whose parameters are updated."""
    if is_sharded(type(model)):
        return True
    if not any(name in sys.modules for name in _SHARDED_IN):
        return False
    # Sharded parameters are DTensors in any model.
    return any(hasattr(parameter, "device_mesh") for parameter in parameters_of(optimizer))


class FsdpReduction(Reduction):
    """The reduction by FSDP2, whose collectives themselves are recorded."""

    def sent_bytes(self, parameter: Parameter) -> int:
        """The bytes of the whole gradient, of which each rank keeps a share; 0 on one rank.

        A reduced precision of communication is not known here.
        """
        distributed = sys.modules.get("torch.distributed")
        is_alone = distributed is None or distributed.get_world_size() == 1
        return 0 if is_alone else parameter.numel() * parameter.element_size()

    def begin_step(self) -> None:
        """Forget the reduce-scatters of the step before: their marks may be used again."""
        if COLLECTIVES.recording is not None:
            COLLECTIVES.recording.last_reduce_scatter = None

    def ready_clock(self, now: Callable[[], Mark]) -> Callable[[], Mark]:
        """What marks a gradient as ready when its hook is called, after it was reduced.

        Args:
            now: A mark of this moment, which stands in where no reduce-scatter was seen.
        """

        def submitted() -> Mark:
            recording = COLLECTIVES.recording
            last = None if recording is None else recording.last_reduce_scatter
            return now() if last is None else last

        return submitted
