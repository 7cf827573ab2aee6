"""Updates of optimizers that are not Horovod's, as where a script reduces its gradients itself."""

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hvdprof import collect
from hvdprof.collect.engines.horovod_reduction import is_horovod
from hvdprof.collect.engines.torch_types import HookHandle, Optimizer
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE

REDUCING = (
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
"""Calls by which a script reduces its gradients."""

P = ParamSpec("P")
R = TypeVar("R")


class _Collectives(threading.local):
    """Of one thread: nested calls that it is in, and reductions since its last update."""

    num_nested = 0
    num_reductions = 0


class PlainUpdates:
    """Sees plain torch optimizers at their first update, by torch's global hook on updates.

    ``is_looking`` is true until it has seen one that is recorded.

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
        self.is_looking = False
        self._handle: HookHandle | None = None
        self._is_compiling: Callable[[], bool] = bool

    def hook(self) -> None:
        """See updates from here on, where torch is imported; Horovod imports it."""
        optimizers = sys.modules.get("torch.optim.optimizer")
        if optimizers is not None:
            self._is_compiling = getattr(sys.modules["torch"].compiler, "is_compiling", bool)
            self._handle = optimizers.register_optimizer_step_post_hook(self._after)
            self.is_looking = True

    def remove(self) -> None:
        """See no more updates; never called within one, where torch is iterating over hooks."""
        if self._handle is not None:
            self._handle.remove()
            self._handle, self.is_looking = None, False

    def reduced(self) -> None:
        """The script waits for a reduction."""
        if not self._collectives.num_nested:
            self._collectives.num_reductions += 1

    def nested(self, call: Callable[P, R]) -> Callable[P, R]:
        """A call of Horovod within which reductions and updates are not those of the script."""

        @functools.wraps(call)
        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            self._collectives.num_nested += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._collectives.num_nested -= 1

        return counted

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
                self.is_looking = False
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
