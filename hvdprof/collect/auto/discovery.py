"""What a recorded torch script trains: its optimizers, and the modules of its forward passes."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from hvdprof.collect.engines.forward_watch import Begin, ForwardWatch
from hvdprof.collect.engines.torch_types import Optimizer, Parameter, parameters_of

DISCOVERY_STEPS = 3


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
