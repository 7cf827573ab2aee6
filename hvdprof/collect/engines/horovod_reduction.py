"""Gradients that ``hvd.DistributedOptimizer`` reduces; the rank waits in its ``synchronize()``.

Horovod's code is left as it is; only ``synchronize`` of the watched optimizer object is bracketed,
because scripts that clip gradients call it themselves.
"""

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE, StepMarks, harmless

_OF_HOROVOD = "horovod.torch.compression"


def is_horovod(optimizer: Any) -> bool:
    """Whether an optimizer was made by ``hvd.DistributedOptimizer``."""
    return hasattr(optimizer, "_compression") and hasattr(optimizer, "_parameter_names")


class HorovodHandover:
    """The handover to Horovod.

    Args:
        optimizer: Made by ``hvd.DistributedOptimizer``. That for Adasum waits in its ``step()``.
            It is not kept alive.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)
        self.blocks_in_step = hasattr(optimizer, "_starting_models")
        self._seen: dict[int, int] = {}
        # At size 1 nothing is ever handed over.
        self._looks = bool(getattr(optimizer, "_requires_update", ())) and not _is_of_horovod(
            optimizer._compression
        )

    def name(self, parameter: Any) -> str | None:
        """The name of the request, which Horovod's timeline has too; None of an unknown one."""
        optimizer = self._optimizer()
        names = getattr(optimizer, "_parameter_names", {})
        group = getattr(optimizer, "_p_to_group", {}).get(parameter)
        if group is None:
            return f"allreduce.{names[parameter]}" if parameter in names else None
        # Horovod names all members of a group after the first.
        place = next(i for i, member in enumerate(group, start=1) if member is parameter)
        return f"grouped_allreduce.{names[group[0]]}_{place}of{len(group)}"

    def sent_bytes(self, parameter: Any) -> int:
        """The bytes after one of Horovod's own compressions, before one of the script's own."""
        optimizer = self._optimizer()
        # At size 1 Horovod's optimizer hands nothing over: it requires no update from Horovod.
        if parameter not in getattr(optimizer, "_requires_update", ()):
            return 0
        return int(parameter.numel() * _sent_width(optimizer, parameter))

    def seen_bytes(self) -> dict[int, int]:
        """What Horovod had of each gradient when the rank first waited for it.

        Only where the script compresses by means of its own, which are not called for that: they
        may keep state. Nothing of a gradient that was missing then, or sparse.
        """
        return self._seen

    def begin_step(self) -> None:
        """Nothing."""

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Bracket ``synchronize`` where the rank waits in it."""
        optimizer = self._optimizer()
        if self.blocks_in_step or optimizer is None:
            return []
        synchronize, is_own = optimizer.synchronize, "synchronize" in vars(optimizer)
        enter = harmless(marks, functools.partial(self._enter if self._looks else _enter, marks))
        leave = harmless(
            marks, lambda begin: marks.add_blocked(begin, marks.leave(OPTIMIZER_PHASE))
        )

        @functools.wraps(synchronize)
        def bracketed(*args: Any, **kwargs: Any) -> Any:
            begin = enter()
            marks.engine_waits(1)
            try:
                return synchronize(*args, **kwargs)
            finally:
                marks.engine_waits(-1)
                leave(begin)

        optimizer.synchronize = bracketed
        return [functools.partial(_restore, self._optimizer, weakref.ref(bracketed), is_own)]

    def _enter(self, marks: StepMarks) -> Any:
        if self._looks:
            self._look()
        return _enter(marks)

    def _look(self) -> None:
        """See what Horovod was handed, in the first step in which that is anything."""
        optimizer = self._optimizer()
        if optimizer is None:
            return
        try:
            self._looks = not optimizer._handles
            self._seen = _handed(optimizer)
        except Exception as error:
            # Another version may keep it elsewhere: the gradients then count as uncompressed.
            self._looks = False
            print_problem(f"compressed sizes are not known: {type(error).__name__}: {error}")


def _enter(marks: StepMarks) -> Any:
    return marks.enter(OPTIMIZER_PHASE)


def _is_of_horovod(compression: Any) -> bool:
    return getattr(compression, "__module__", "") == _OF_HOROVOD


def _sent_width(optimizer: Any, parameter: Any) -> int:
    if not _is_of_horovod(optimizer._compression):
        return int(parameter.element_size())
    # None of Horovod's own keeps state.
    compressed, _ = optimizer._compression.compress(parameter.detach().new_empty(0))
    return int(compressed.element_size())


def _handed(optimizer: Any) -> dict[int, int]:
    """Bytes by id of the parameter, of the tensors that wait in Horovod's table of handles."""
    waiting = sys.modules["horovod.torch.mpi_ops"]._handle_map
    seen = {}
    for handed, (handle, _) in optimizer._handles.items():
        if handle not in waiting:
            continue
        tensors = waiting[handle][0]
        pairs = (
            zip(handed, tensors, strict=True) if isinstance(handed, tuple) else [(handed, tensors)]
        )
        for parameter, tensor in pairs:
            seen[id(parameter)] = int(tensor.numel() * tensor.element_size())
    return seen


def _restore(
    owner: "weakref.ref[Any]", bracket: "weakref.ref[Callable[..., Any]]", is_own: bool
) -> None:
    optimizer, bracketed = owner(), bracket()
    # What was put there meanwhile stays.
    if optimizer is None or vars(optimizer).get("synchronize") is not bracketed:
        return
    if is_own:
        optimizer.synchronize = vars(bracketed)["__wrapped__"]
    else:
        del optimizer.synchronize
