"""Moments within a `tf.function`: when data, loss, gradients and reduced gradients were there.

A function of TensorFlow runs as a graph, of which Python sees begin and end alone. While it is
traced, small operations are put beside its own, each of which waits for the tensors whose arrival
it reports. Nothing waits for them, so computing and communication overlap as before.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hvdprof.collect.session import Piece
from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE, OPTIMIZER_PHASE

DATA, LOSS, READY, REDUCED = "data", "loss", "ready", "reduced"
"""A batch has come, the loss is computed, all gradients are, all reduced gradients are there."""

_INLINED = ("Call", "If", "Case", "While")
_ORDER = (DATA, LOSS, READY, REDUCED)
_PHASE_UNTIL = {DATA: "data", LOSS: "forward", READY: "backward", REDUCED: COLLECTIVE_PHASE}
_PHASE_AFTER = {LOSS: "backward", REDUCED: OPTIMIZER_PHASE}


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a call: its kind, its monotonic time, and for ``DATA`` the samples."""

    kind: str
    at_ns: int
    num_samples: int = 0


class GraphMarks:
    """The moments of the calls of one function.

    Args:
        tf: The module ``tensorflow``.
        on_moment: Called with the kind of each moment, on a thread of TensorFlow.
        clock: The monotonic clock, ns.
    """

    def __init__(
        self,
        tf: ModuleType,
        on_moment: Callable[[str], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._tf = tf
        self._on_moment = on_moment
        self._clock = clock
        self._moments: list[Moment] = []
        self.reduces = False
        self.reports = False

    def insert(self, kind: str, tensors: Iterable[object], num_samples: object = 0) -> None:
        """Let the graph that is traced report when tensors are there.

        Args:
            kind: What their arrival means.
            tensors: Tensors of the graph; None among them is skipped.
            num_samples: Reported with them, a number or a scalar tensor.
        """
        awaited = [tensor for tensor in tensors if tensor is not None]
        if not awaited:
            return
        self.reports = True
        moments, on_moment, clock = self._moments, self._on_moment, self._clock

        def note(number: Any, *_: object) -> None:
            moments.append(Moment(kind, clock(), int(number)))
            on_moment(kind)

        # Of sparse gradients the values.
        dense: list[Any] = [getattr(tensor, "values", tensor) for tensor in awaited]
        called = [tensor for tensor in dense if _is_inlined(tensor.op.type)]
        direct = [tensor for tensor in dense if not _is_inlined(tensor.op.type)]
        with self._tf.device("/CPU:0"), self._tf.control_dependencies(direct):
            # To wait for a call that TensorFlow inlines is not to wait for its results: an element
            # of these is passed. And not a tf.Variable, which would prevent saving what was
            # traced.
            elements = [self._element(tensor) for tensor in called]
            self._tf.numpy_function(note, [num_samples, *elements], [])

    def _element(self, tensor: Any) -> object:
        rank = tensor.shape.rank
        # One operation instead of two, where it is known that there is an element.
        if rank and tensor.shape.num_elements():
            return self._tf.slice(tensor, [0] * rank, [1] * rank)
        return self._tf.reshape(tensor, [-1])[:1]

    def take(self) -> list[Moment]:
        """The moments since the last call of this, by time."""
        taken, self._moments[:] = list(self._moments), []
        return sorted(taken, key=lambda moment: moment.at_ns)


def _is_inlined(operation: str) -> bool:
    return any(kind in operation for kind in _INLINED)


def pieces(moments: list[Moment], begin_ns: int, end_ns: int) -> list[Piece]:
    """The phases of a call with begin and end, ns, in order and without overlaps.

    Until the loss is there a call is in ``forward``, until all gradients are in ``backward``. From
    then until all are reduced the rank only updates what came early, and that is ``collective``.
    A call without any moment has no phases.

    Args:
        moments: Those of the call, by time.
        begin_ns: When it began.
        end_ns: When it ended.
    """
    phases, since = [], begin_ns
    for moment in _in_their_order(moments):
        if moment.at_ns > since:
            phases.append((_PHASE_UNTIL[moment.kind], since, moment.at_ns))
            since = moment.at_ns
    last = max((moment.kind for moment in moments), key=_ORDER.index, default=DATA)
    if last in _PHASE_AFTER and end_ns > since:
        phases.append((_PHASE_AFTER[last], since, end_ns))
    return phases


def _in_their_order(moments: list[Moment]) -> list[Moment]:
    """Moments of a single pass in the order in which they must have come, with corrected times.

    Threads of TensorFlow report them and may have to wait for a core: a moment that was reported
    later than one that it must precede came no later than that.
    """
    if len({moment.kind for moment in moments}) < len(moments):
        return moments
    ordered = sorted(moments, key=lambda moment: _ORDER.index(moment.kind))
    latest, corrected = None, []
    for moment in reversed(ordered):
        latest = moment.at_ns if latest is None else min(latest, moment.at_ns)
        corrected.append(Moment(moment.kind, latest, moment.num_samples))
    return corrected[::-1]
