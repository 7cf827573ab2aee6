"""Gradients that ``hvd.DistributedOptimizer`` reduces; the rank waits in its ``synchronize()``.

Horovod's code stays as it is; only ``synchronize`` of the watched optimizer object is replaced,
because scripts that clip gradients call it themselves.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol, TypeGuard

from hvdprof.collect.engines.torch_types import Optimizer, Parameter, Reduction, SizedTensor
from hvdprof.collect.guarded_context import harmless, print_problem
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE, StepMarks
from hvdprof.collect.steps.time_source import Mark

_OF_HOROVOD = "horovod.torch.compression"


class Compression(Protocol):
    """One of Horovod's compressions, or one of the script's own."""

    def compress(self, tensor: SizedTensor, /) -> tuple[SizedTensor, object]:
        """The compressed tensor, and what is needed to decompress it."""


class HorovodOptimizer(Optimizer, Protocol):
    """An optimizer of ``hvd.DistributedOptimizer`` (0.28.1)."""

    _compression: Compression
    _parameter_names: Mapping[Parameter, str]
    _handles: Mapping[object, tuple[object, object]]
    synchronize: Callable[..., object]


def is_horovod(optimizer: object) -> TypeGuard[HorovodOptimizer]:
    """Whether ``hvd.DistributedOptimizer`` made an optimizer."""
    return hasattr(optimizer, "_compression") and hasattr(optimizer, "_parameter_names")


class HorovodReduction(Reduction):
    """The reduction by Horovod.

    Args:
        optimizer: Made by ``hvd.DistributedOptimizer``. The one for Adasum waits in its ``step()``.
            It is not kept alive.
    """

    def __init__(self, optimizer: HorovodOptimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self.blocks_in_step = hasattr(optimizer, "_starting_models")
        self._seen: dict[int, int] = {}
        # At size 1 the optimizer submits nothing.
        self._looks = bool(getattr(optimizer, "_requires_update", ())) and not _is_of_horovod(
            optimizer._compression
        )

    def name(self, parameter: Parameter) -> str | None:
        """The name of the request, which Horovod's timeline has too; None of an unknown one."""
        optimizer = self._optimizer()
        names: Mapping[object, str] = getattr(optimizer, "_parameter_names", {})
        group = getattr(optimizer, "_p_to_group", {}).get(parameter)
        if group is None:
            return f"allreduce.{names[parameter]}" if parameter in names else None
        # Horovod names all members of a group after the first.
        place = next(i for i, member in enumerate(group, start=1) if member is parameter)
        return f"grouped_allreduce.{names[group[0]]}_{place}of{len(group)}"

    def sent_bytes(self, parameter: Parameter) -> int:
        """The bytes after one of Horovod's own compressions, before one of the script's own."""
        optimizer = self._optimizer()
        # At size 1 Horovod's optimizer submits nothing: it requires no update from Horovod.
        if optimizer is None or parameter not in getattr(optimizer, "_requires_update", ()):
            return 0
        return int(parameter.numel() * _sent_width(optimizer, parameter))

    def seen_bytes(self) -> dict[int, int]:
        """What Horovod held of each gradient when the rank first waited for it.

        Only where the script compresses by means of its own, which are not called for that: they
        may have state. Nothing of a gradient that was missing then, or sparse.
        """
        return self._seen

    def attach(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Mark ``synchronize`` where the rank waits in it."""
        optimizer = self._optimizer()
        if self.blocks_in_step or optimizer is None:
            return []
        synchronize, is_own = optimizer.synchronize, "synchronize" in vars(optimizer)
        enter = harmless(marks, functools.partial(self._enter if self._looks else _enter, marks))
        leave = harmless(
            marks, lambda begin: marks.add_blocked(begin, marks.leave(OPTIMIZER_PHASE))
        )

        @functools.wraps(synchronize)
        def timed(*args: object, **kwargs: object) -> object:
            begin = enter()
            marks.engine_waits(1)
            try:
                return synchronize(*args, **kwargs)
            finally:
                marks.engine_waits(-1)
                leave(begin)

        optimizer.synchronize = timed
        return [functools.partial(_restore, self._optimizer, weakref.ref(timed), is_own)]

    def _enter(self, marks: StepMarks) -> Mark | None:
        if self._looks:
            self._look()
        return _enter(marks)

    def _look(self) -> None:
        """See what Horovod holds, in the first step in which it holds anything."""
        optimizer = self._optimizer()
        if optimizer is None:
            return
        try:
            self._looks = not optimizer._handles
            self._seen = _submitted(optimizer)
        except Exception as error:
            # Another version may store it elsewhere: the gradients then count as uncompressed.
            self._looks = False
            print_problem(f"compressed sizes are not known: {type(error).__name__}: {error}")


def _enter(marks: StepMarks) -> Mark | None:
    return marks.enter(OPTIMIZER_PHASE)


def _is_of_horovod(compression: object) -> bool:
    return getattr(compression, "__module__", "") == _OF_HOROVOD


def _sent_width(optimizer: HorovodOptimizer, parameter: Parameter) -> int:
    if not _is_of_horovod(optimizer._compression):
        return parameter.element_size()
    # None of Horovod's own compressions has state.
    compressed, _ = optimizer._compression.compress(parameter.detach().new_empty(0))
    return compressed.element_size()


def _submitted(optimizer: HorovodOptimizer) -> dict[int, int]:
    """Bytes by id of the parameter, of the tensors that wait in Horovod's table of handles."""
    waiting = sys.modules["horovod.torch.mpi_ops"]._handle_map
    seen: dict[int, int] = {}
    for submitted, (handle, _) in optimizer._handles.items():
        if handle not in waiting:
            continue
        tensors = waiting[handle][0]
        if isinstance(submitted, tuple):
            pairs = list(zip(submitted, tensors, strict=True))
        else:
            pairs = [(submitted, tensors)]
        for parameter, tensor in pairs:
            seen[id(parameter)] = int(tensor.numel() * tensor.element_size())
    return seen


def _restore(
    owner: "weakref.ref[HorovodOptimizer]",
    replaced: "weakref.ref[Callable[..., object]]",
    is_own: bool,
) -> None:
    optimizer, timed = owner(), replaced()
    # A function that was put there meanwhile stays.
    if optimizer is None or vars(optimizer).get("synchronize") is not timed:
        return
    if is_own:
        optimizer.synchronize = vars(timed)["__wrapped__"]
    else:
        del optimizer.synchronize
