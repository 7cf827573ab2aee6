"""Gradients that ``hvd.DistributedOptimizer`` reduces; the rank waits in its ``synchronize()``.

Horovod's code is left as it is; only ``synchronize`` of the watched optimizer object is bracketed,
because scripts that clip gradients call it themselves.
"""

from collections.abc import Callable
from typing import Any

from hvdprof.collect.step_marks import OPTIMIZER_PHASE, StepMarks


def is_horovod(optimizer: Any) -> bool:
    """Whether an optimizer was made by ``hvd.DistributedOptimizer``."""
    return hasattr(optimizer, "_compression") and hasattr(optimizer, "_parameter_names")


class HorovodHandover:
    """The handover to Horovod.

    Args:
        optimizer: Made by ``hvd.DistributedOptimizer``. That for Adasum waits in its ``step()``.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self.blocks_in_step = hasattr(optimizer, "_starting_models")

    def name(self, parameter: Any) -> str | None:
        """The name of the request, which Horovod's timeline has too."""
        optimizer = self._optimizer
        group = getattr(optimizer, "_p_to_group", {}).get(parameter)
        if group is None:
            return f"allreduce.{optimizer._parameter_names[parameter]}"
        # Horovod names all members of a group after the first.
        place = next(i for i, member in enumerate(group, start=1) if member is parameter)
        return f"grouped_allreduce.{optimizer._parameter_names[group[0]]}_{place}of{len(group)}"

    def sent_bytes(self, parameter: Any) -> int:
        """The bytes after compression."""
        # At size 1 Horovod's optimizer hands nothing over: it requires no update from Horovod.
        if parameter not in self._optimizer._requires_update:
            return 0
        compressed, _ = self._optimizer._compression.compress(parameter.detach().new_empty(0))
        return int(parameter.numel() * compressed.element_size())

    def begin_step(self) -> None:
        """Nothing."""

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Bracket ``synchronize`` where the rank waits in it."""
        if self.blocks_in_step:
            return []
        optimizer = self._optimizer
        synchronize = optimizer.synchronize

        def bracketed() -> None:
            begin = marks.enter(OPTIMIZER_PHASE)
            marks.num_waits += 1
            try:
                synchronize()
            finally:
                marks.num_waits -= 1
            marks.add_blocked(begin, marks.leave(OPTIMIZER_PHASE))

        optimizer.synchronize = bracketed
        return [lambda: vars(optimizer).pop("synchronize", None)]
