"""A model's gradients and its optimizer: when gradients are ready, how long steps block.

The hooks are PyTorch's own, on the objects of the script. What a rank submits its gradients to, and
when it waits for that, the reduction backend says.

Tested by tests/collect/test_recorder.py.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hvdprof.collect.engines.ddp_reduction import DdpReduction, FsdpReduction, is_ddp, is_fsdp
from hvdprof.collect.engines.horovod_reduction import HorovodReduction, is_horovod
from hvdprof.collect.engines.torch_types import Model, Optimizer, Parameter, Reduction
from hvdprof.collect.guarded_context import harmless
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE, BucketMarks, StepMarks
from hvdprof.collect.steps.step_writer import MarkedBucket
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import Tensor


@dataclass(frozen=True, slots=True)
class WatchedTensor:
    """A gradient: its name as the engine knows it, its size, and what a rank submits of it."""

    name: str
    size_bytes: int
    sent_bytes: int

    def as_declared(self) -> Tensor:
        """Its entry in the ``segment`` line."""
        return {"name": self.name, "size_bytes": self.size_bytes, "sent_bytes": self.sent_bytes}


class GradientWatch:
    """The hooks of one model and one optimizer, neither of which is kept alive.

    A hook that fails does not raise: ``marks.failure`` holds the exception.

    Args:
        model: Gives the names of parameters where the optimizer is not a Horovod one; wrapped by
            ``DistributedDataParallel`` where that reduces the gradients, or sharded by
            ``fully_shard``.
        optimizer: A torch optimizer, plain or made by ``hvd.DistributedOptimizer``.
        source: Where marks come from.
        marks: The marks of the open step.
    """

    def __init__(
        self, model: Model, optimizer: Optimizer, source: TimeSource, marks: StepMarks
    ) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._backend = _backend_of(model, optimizer)
        self._marks = marks
        self._depth = 0
        self._own_parameters = 0
        self._optimizer_begin: Mark | None = None
        self._removers: list[Callable[[], None]] = []
        try:
            self._attach(optimizer, source)
        except Exception:
            self.remove()
            raise

    def _attach(self, optimizer: Optimizer, source: TimeSource) -> None:
        parameters: list[tuple[str, Parameter]] = [
            (f"noname.{i}.{j}", parameter)
            for i, group in enumerate(optimizer.param_groups)
            for j, parameter in enumerate(group["params"])
            if parameter.requires_grad
        ]
        self.tensors = [self._described(place, one) for place, one in parameters]
        self._index_of = {id(parameter): index for index, (_, parameter) in enumerate(parameters)}
        self._none_ready: list[Mark | None] = [None] * len(parameters)
        self.ready: list[Mark | None] = list(self._none_ready)
        now, on_ready = source.now, self._backend.on_ready(self._marks)
        if isinstance(self._backend, FsdpReduction):
            now = self._backend.ready_clock(now)
        for index, (_, parameter) in enumerate(parameters):
            hook = _ready_hook(self.ready, index, now, self._marks, on_ready)
            self._removers.append(parameter.register_post_accumulate_grad_hook(hook).remove)
        self._removers += [
            optimizer.register_step_pre_hook(harmless(self._marks, self._before_step)).remove,
            optimizer.register_step_post_hook(harmless(self._marks, self._after_step)).remove,
        ]
        self._removers += self._backend.attach(self._marks)
        self.begin_step()

    def is_of(self, optimizer: Optimizer) -> bool:
        """Whether this is the watch of that optimizer."""
        return self._optimizer() is optimizer

    def begin_step(self) -> None:
        """Forget the marks of the step before."""
        self.ready[:] = self._none_ready
        self._depth = 0
        optimizer = self._optimizer()
        if optimizer is not None:
            self._own_parameters = id(optimizer.param_groups[0]["params"])
        self._backend.begin_step()

    def remove(self) -> None:
        """Remove every hook; a second call does nothing."""
        while self._removers:
            self._removers.pop()()

    def declared(self) -> list[Tensor]:
        """The watched tensors as the recorder file has them, by what is known of them now."""
        for key, sent_bytes in self._backend.seen_bytes().items():
            index = self._index_of.get(key)
            if index is not None:
                self.tensors[index] = replace(self.tensors[index], sent_bytes=sent_bytes)
        return [tensor.as_declared() for tensor in self.tensors]

    def members(self, bucket: BucketMarks) -> list[int]:
        """The places of a bucket's gradients among the watched tensors."""
        places = (self._index_of.get(id(parameter)) for parameter in bucket.parameters)
        return [place for place in places if place is not None]

    def _described(self, place: str, parameter: Parameter) -> WatchedTensor:
        return WatchedTensor(
            self._backend.name(parameter) or place,
            parameter.numel() * parameter.element_size(),
            self._backend.sent_bytes(parameter),
        )

    def _before_step(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if self._is_local_step(optimizer):
            return
        self._depth += 1
        if self._depth == 1:
            self._optimizer_begin = self._marks.enter(OPTIMIZER_PHASE)
            self._marks.engine_waits(int(self._backend.blocks_in_step))

    def _after_step(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if self._is_local_step(optimizer):
            return
        self._depth -= 1
        if self._depth == 0:
            end = self._marks.leave(OPTIMIZER_PHASE)
            if self._backend.blocks_in_step:
                self._marks.engine_waits(-1)
                self._marks.add_blocked(self._optimizer_begin, end)

    def _is_local_step(self, optimizer: Optimizer) -> bool:
        # Horovod's Adasum optimizer steps once per parameter within backward, and swaps the
        # list of parameters while it does so; such a step belongs to backward.
        return id(optimizer.param_groups[0]["params"]) != self._own_parameters


def _backend_of(model: Model, optimizer: Optimizer) -> Reduction:
    if is_horovod(optimizer):
        return HorovodReduction(optimizer)
    if is_ddp(model):
        return DdpReduction(model)
    return FsdpReduction(model) if is_fsdp(model, optimizer) else Reduction(model)


def _ready_hook(
    ready: list[Mark | None],
    index: int,
    now: Callable[[], Mark],
    marks: StepMarks,
    on_ready: Callable[[], None] | None,
) -> Callable[[object], None]:
    def mark_ready(_parameter: object) -> None:
        # With several backward passes per step the last one counts.
        try:
            ready[index] = now()
            if on_ready is not None and not marks.is_wait_expected:
                on_ready()
        except Exception as error:
            marks.failure = error

    return mark_ready


class WatchList:
    """Gradients of several models count as those of one, in the order of their watches."""

    def __init__(self, source: TimeSource, marks: StepMarks) -> None:
        self._source = source
        self._marks = marks
        self._lasting: list[GradientWatch] = []
        self._of_segment: list[GradientWatch] = []

    def __iter__(self) -> Iterator[GradientWatch]:
        return iter(self._lasting + self._of_segment)

    def add(self, model: Model, optimizer: Optimizer, *, lasts: bool) -> None:
        """Attach to an optimizer, until ``detach_segment`` or, if it lasts, ``detach``."""
        watch = GradientWatch(model, optimizer, self._source, self._marks)
        (self._lasting if lasts else self._of_segment).append(watch)

    def has(self, optimizer: Optimizer) -> bool:
        """Whether an optimizer is watched."""
        return any(watch.is_of(optimizer) for watch in self)

    def begin_step(self) -> None:
        """Forget the marks of the step before."""
        for watch in self:
            watch.begin_step()

    def declared(self) -> list[Tensor]:
        """The watched tensors as the recorder file has them."""
        return [tensor for watch in self for tensor in watch.declared()]

    def ready(self) -> list[Mark | None]:
        """The marks at which gradients of the step became ready; None for those that did not."""
        return [mark for watch in self for mark in watch.ready]

    def readiness(self) -> list[tuple[str, bool]]:
        """The names of the watched tensors, and whether they are ready; for any thread."""
        return [
            (tensor.name, mark is not None)
            for watch in self
            for tensor, mark in zip(watch.tensors, tuple(watch.ready), strict=False)
        ]

    def placed(self, bucket: BucketMarks) -> MarkedBucket:
        """A bucket with the places of its gradients among all that are watched."""
        members: list[int] = []
        before = 0
        for watch in self:
            members += [before + place for place in watch.members(bucket)]
            before += len(watch.tensors)
        return bucket.begin, bucket.end, members

    def detach_segment(self) -> None:
        """Remove the hooks that are there for the segment."""
        while self._of_segment:
            self._of_segment.pop().remove()

    def detach(self) -> None:
        """Remove every hook."""
        self.detach_segment()
        while self._lasting:
            self._lasting.pop().remove()
