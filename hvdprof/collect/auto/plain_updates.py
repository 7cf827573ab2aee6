"""Updates of optimizers that are not Horovod's, as where a script reduces its gradients itself.

Tested by tests/collect/auto/test_hand_written.py.
"""

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from hvdprof import collect
from hvdprof.collect.engines.horovod_reduction import is_horovod
from hvdprof.collect.engines.torch_types import HookHandle, Optimizer
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE

_REDUCING = (
    "allreduce",
    "allreduce_",
    "grouped_allreduce",
    "grouped_allreduce_",
    "allgather",
    "grouped_allgather",
    "reducescatter",
    "grouped_reducescatter",
    "synchronize",
)


class _Collectives(threading.local):
    """Of one thread: calls that it is in, and those that have reduced since its last update."""

    num_nested = 0
    num_reductions = 0


class PlainUpdates:
    """Sees plain torch optimizers at their first update, by torch's global hook on updates.

    Args:
        updated: Called with an optimizer after an update, and whether the script has waited for a
            reduction since the update before; returns whether it needs no further call.
        fails: Called with an exception of the hook, which never reaches the script.
    """

    def __init__(
        self, updated: Callable[[Optimizer, bool], bool], fails: Callable[[Exception], None]
    ) -> None:
        self._updated, self._fails = updated, fails
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._collectives = _Collectives()
        self._handle: HookHandle | None = None
        self._is_compiling: Callable[[], bool] = bool

    def hook(self) -> None:
        """See updates from here on, where torch is imported; Horovod imports it."""
        optimizers = sys.modules.get("torch.optim.optimizer")
        if optimizers is not None:
            self._is_compiling = getattr(sys.modules["torch"].compiler, "is_compiling", bool)
            self._handle = optimizers.register_optimizer_step_post_hook(self._after)

    def remove(self) -> None:
        """See no more updates; never called within one, where torch is iterating over hooks."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def collective(self, name: str, change: int) -> None:
        """A blocking call of Horovod by the script begins (1) or ends (-1)."""
        if self._handle is None:
            return
        counts = self._collectives
        if change > 0 and not counts.num_nested and name in _REDUCING:
            counts.num_reductions += 1
        counts.num_nested += change

    def _after(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        # Horovod itself updates a plain optimizer in order to broadcast its state.
        counts = self._collectives
        if self._is_compiling() or counts.num_nested or optimizer in self._known:
            return
        try:
            if is_horovod(optimizer):
                return
            is_reduced, counts.num_reductions = counts.num_reductions > 0, 0
            if self._updated(optimizer, is_reduced):
                self._known.add(optimizer)
        except Exception as error:
            self._fails(error)


def surround_step(optimizer: Any, surround: Callable[[Callable[[], object]], object]) -> None:
    """Replace the ``step`` of an optimizer; ``surround`` is called with the step to make."""
    step = optimizer.step
    function = getattr(step, "__func__", None)

    # A bound method, because learning-rate schedulers of torch take it apart.
    def surrounded(own: object, *args: object, **kwargs: object) -> object:
        if function is None:
            return surround(lambda: step(*args, **kwargs))
        return surround(lambda: function(own, *args, **kwargs))

    optimizer.step = types.MethodType(functools.wraps(function or step)(surrounded), optimizer)


def time_updates(optimizer: Optimizer, is_here: Callable[[], bool]) -> None:
    """Record the updates of an optimizer that has no other hooks, in the thread that trains."""

    def timed(step: Callable[[], object]) -> object:
        if not is_here():
            return step()
        with collect.phase(OPTIMIZER_PHASE):
            return step()

    surround_step(optimizer, timed)
