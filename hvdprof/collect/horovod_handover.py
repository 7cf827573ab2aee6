"""Gradients that ``hvd.DistributedOptimizer`` reduces; the rank waits in its ``synchronize()``.

Horovod's code is left as it is; only ``synchronize`` of the watched optimizer object is bracketed,
because scripts that clip gradients call it themselves.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

from hvdprof.collect.step_marks import OPTIMIZER_PHASE, StepMarks, harmless


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
        """The bytes after compression; those before it where nothing can be told of it."""
        optimizer = self._optimizer()
        # At size 1 Horovod's optimizer hands nothing over: it requires no update from Horovod.
        if parameter not in getattr(optimizer, "_requires_update", ()):
            return 0
        return int(parameter.numel() * _sent_width(optimizer, parameter))

    def begin_step(self) -> None:
        """Nothing."""

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Bracket ``synchronize`` where the rank waits in it."""
        optimizer = self._optimizer()
        if self.blocks_in_step or optimizer is None:
            return []
        synchronize, is_own = optimizer.synchronize, "synchronize" in vars(optimizer)
        enter = harmless(marks, lambda: marks.enter(OPTIMIZER_PHASE))
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


def _sent_width(optimizer: Any, parameter: Any) -> int:
    try:
        compressed, _ = optimizer._compression.compress(parameter.detach().new_empty(0))
        return int(compressed.element_size())
    except Exception:
        # A compression of the script's own may do anything, and need not take an empty tensor.
        return int(parameter.element_size())


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
