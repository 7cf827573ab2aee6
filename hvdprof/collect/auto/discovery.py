"""What a recorded torch script trains: its optimizers, and the modules of its forward passes.

Tested by tests/collect/auto/test_autorecord.py.
"""

import sys
import weakref
from collections.abc import Callable, Iterator

from hvdprof.collect.engines.forward_watch import Begin, ForwardWatch
from hvdprof.collect.engines.torch_types import Optimizer, parameters_of

DISCOVERY_STEPS = 3


class TrainedOptimizers:
    """Optimizers in the order in which the script made them, none of them kept alive.

    A script may drop a model to make room for the next one. In an elastic job, the optimizers
    that were made before a session outlast it.
    """

    def __init__(self) -> None:
        self._made: list[weakref.ref[Optimizer]] = []
        self._num_lasting = 0

    def __bool__(self) -> bool:
        return bool(self._made)

    def __iter__(self) -> Iterator[Optimizer]:
        return (one for made in self._made if (one := made()) is not None)

    def add(self, optimizer: Optimizer) -> None:
        """The script made one more."""
        self._made.append(weakref.ref(optimizer))

    def begin_session(self) -> None:
        """A session begins: the optimizers that exist now outlast it."""
        self._made = [made for made in self._made if made() is not None]
        self._num_lasting = len(self._made)

    def end_session(self) -> None:
        """The session is over: its function makes its own optimizers again in the next one."""
        del self._made[self._num_lasting :]


class ForwardDiscovery:
    """Looks for the modules of the first optimizer before each of the first updates.

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
        evaluates: Callable[[], None],
        fails: Callable[[Exception], None],
    ) -> None:
        self._begin, self._evaluates, self._fails = begin, evaluates, fails
        self._watch: ForwardWatch | None = None
        self._looked_after = -1
        self._is_settled = False

    @property
    def is_watching(self) -> bool:
        """Whether forward passes are watched."""
        return self._watch is not None

    def start(self, optimizer: Optimizer) -> None:
        """Watch the modules that hold the parameters of an optimizer."""
        parameters = parameters_of(optimizer)
        torch = sys.modules["torch"]
        self._watch = ForwardWatch(torch, parameters, self._begin, self._evaluates, self._fails)

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
        if num_ended < DISCOVERY_STEPS:
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
