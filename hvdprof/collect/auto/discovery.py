"""What a recorded torch script trains: optimizers, modules, updates that are not Horovod's."""

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from hvdprof import collect
from hvdprof.collect.engines.forward_watch import Begin, ForwardWatch
from hvdprof.collect.engines.horovod_reduction import is_horovod
from hvdprof.collect.engines.torch_types import HookHandle, Optimizer, Parameter, parameters_of
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE

DISCOVERY_STEPS = 3

REDUCING = (
    *("allreduce", "allreduce_", "grouped_allreduce", "grouped_allreduce_", "allgather"),
    *("grouped_allgather", "reducescatter", "grouped_reducescatter", "synchronize"),
)
"""Calls by which a script reduces its gradients."""

P = ParamSpec("P")
R = TypeVar("R")


class TrainedOptimizers:
    """Optimizers in the order in which the script made them, none of them kept alive.

    A script may drop a model to make room for the next one. In an elastic job, the optimizers
    that were made before a session outlast it.
    """

    def __init__(self) -> None:
        self._made: list[weakref.ref[Optimizer]] = []
        self._watched: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._num_lasting = 0

    def __bool__(self) -> bool:
        return bool(self._made)

    def __iter__(self) -> Iterator[Optimizer]:
        return (one for made in self._made if (one := made()) is not None)

    def add(self, optimizer: Optimizer, *, is_watched: bool) -> None:
        """The script made one more; its gradients are watched, or its updates alone are seen."""
        self._made.append(weakref.ref(optimizer))
        if is_watched:
            self._watched.add(optimizer)

    def watched(self) -> list[Optimizer]:
        """Those whose gradients are watched."""
        return [optimizer for optimizer in self if optimizer in self._watched]

    def is_first(self, optimizer: object) -> bool:
        """Whether it is the one whose updates end the steps."""
        return bool(self._made) and self._made[0]() is optimizer

    def begin_session(self) -> None:
        """A session begins: the optimizers that exist now outlast it."""
        self._made = [made for made in self._made if made() is not None]
        self._num_lasting = len(self._made)

    def end_session(self) -> None:
        """The session is over: its function makes its own optimizers again in the next one."""
        del self._made[self._num_lasting :]


class ForwardDiscovery:
    """Looks for the modules of the optimizers before each of the first updates.

    Modules are also wrapped after the optimizer has been made, by torch.compile for one. After
    ``DISCOVERY_STEPS`` updates only the outermost classes stay watched.

    Args:
        begin: Called with the inputs of a pass for training; returns what to leave at its end.
        evaluates: Called at a pass of a trained module that is not for training.
        fails: Called with an exception of the watch.
    """

    def __init__(
        self,
        begin: Begin,
        evaluates: Callable[[], AbstractContextManager[None] | None],
        fails: Callable[[Exception], None],
    ) -> None:
        self._begin, self._evaluates, self._fails = begin, evaluates, fails
        self._watch: ForwardWatch | None = None
        self._looked_after = -1
        self._settles_after = DISCOVERY_STEPS
        self._is_settled = False

    @property
    def is_inside(self) -> bool:
        """Whether a trained module computes now."""
        return self._watch is not None and self._watch.is_inside

    @property
    def is_watching(self) -> bool:
        """Whether forward passes are watched."""
        return self._watch is not None

    def start(self, optimizers: Iterable[Optimizer]) -> None:
        """Watch the modules that hold the parameters of optimizers."""
        parameters = [
            parameter for optimizer in optimizers for parameter in parameters_of(optimizer)
        ]
        torch = sys.modules["torch"]
        self._watch = ForwardWatch(torch, parameters, self._begin, self._evaluates, self._fails)

    def add(self, optimizer: Optimizer, num_ended: int) -> None:
        """Watch the modules of one more optimizer, which comes after that many updates."""
        if self._watch is not None:
            self._watch.add(parameters_of(optimizer))
            self._settles_after = num_ended + DISCOVERY_STEPS
            self._is_settled = False

    def is_due(self, num_ended: int) -> bool:
        """Whether to look again, after that many updates; once per update."""
        if self._watch is None or num_ended == self._looked_after or self._is_settled:
            return False
        self._looked_after = num_ended
        return True

    def look(self, num_ended: int) -> None:
        """Look for modules that are new, or settle on those that were outermost."""
        if self._watch is None:
            return
        if num_ended < self._settles_after:
            self._watch.look_for_modules()
        else:
            self._is_settled = True
            self._watch.settle()

    def move_here(self) -> None:
        """Watch the passes in this thread."""
        if self._watch is not None:
            self._watch.move_here()

    def remove(self) -> None:
        """Restore what was watched, and begin anew at the next ``start``."""
        if self._watch is not None:
            self._watch.remove()
        self._watch, self._looked_after, self._is_settled = None, -1, False
        self._settles_after = DISCOVERY_STEPS


def device_of(optimizer: Optimizer) -> str:
    """Where its parameters are, such as ``cpu`` or ``cuda:0``."""
    return str(parameters_of(optimizer)[0].device)


class Nameless:
    """In place of the model: Horovod's optimizer knows the names of its parameters itself."""

    def named_parameters(self) -> tuple[tuple[str, Parameter], ...]:
        """None of its own."""
        return ()


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
