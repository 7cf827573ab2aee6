"""Moments within a `tf.function`: when data, loss, gradients and reduced gradients were there.

A function of TensorFlow runs as a graph, of which Python sees begin and end alone. While it is
traced, small operations are put beside its own, each of which waits for the tensors whose arrival
it reports. They take the time within TensorFlow; Python, which may have to wait for a core, only
hears of it. Computing waits for the time of its batch alone, which takes some microseconds, so
computing and communication overlap as before.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, SupportsFloat, SupportsInt

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
        wall: The clock of TensorFlow's times, ns since the epoch.
    """

    def __init__(
        self,
        tf: ModuleType,
        on_moment: Callable[[str], None],
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tf = tf
        self._on_moment = on_moment
        self._clock, self._wall = clock, wall
        self._moments: list[Moment] = []
        self.reduces = False
        self.reports = False

    def insert(self, kind: str, tensors: Iterable[object], num_samples: object = 0) -> object:
        """Let the graph that is traced report when tensors are there.

        Args:
            kind: What their arrival means.
            tensors: Tensors of the graph; None among them is skipped.
            num_samples: Reported with them, a number or a scalar tensor.

        Returns:
            The tensor of that time, there as soon as it is taken; None without tensors.
        """
        awaited = [tensor for tensor in tensors if tensor is not None]
        if not awaited:
            return None
        self.reports = True
        moments, on_moment, clock, wall = self._moments, self._on_moment, self._clock, self._wall

        def note(number: SupportsInt, taken_s: SupportsFloat) -> None:
            since_ns = max(0, wall() - round(float(taken_s) * 1e9))
            moments.append(Moment(kind, clock() - since_ns, int(number)))
            on_moment(kind)

        # Of sparse gradients the values.
        dense: list[Any] = [getattr(tensor, "values", tensor) for tensor in awaited]
        called = [tensor for tensor in dense if _is_inlined(tensor.op.type)]
        direct = [tensor for tensor in dense if not _is_inlined(tensor.op.type)]
        tf = self._tf
        with tf.device("/CPU:0"):
            # To wait for a call that TensorFlow inlines is not to wait for its results: an element
            # of these is waited for. And not a tf.Variable, which would prevent saving what was
            # traced.
            elements = [self._element(tensor) for tensor in called]
            with tf.control_dependencies([*direct, *elements]):
                taken = tf.timestamp()
            tf.numpy_function(note, [num_samples, taken], [])
        return taken

    def hold(self, value: object, first: object) -> object:
        """A batch that is passed on when the time of its first tensor was taken.

        Nothing computes with it before, so a forward pass never begins before its batch has come.
        """
        tf = self._tf
        taken = self.insert(DATA, [first], tf.shape(first)[0])
        with tf.control_dependencies([taken]):
            return tf.nest.map_structure(
                lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf, value
            )

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
    A call without any moment has no phases. Between the batches of one call the time from the last
    reduced gradient to the next batch is in no phase.
    """
    phases, since, before = [], begin_ns, ""
    for moment in _in_their_order(moments):
        if moment.at_ns > since:
            # Of several batches in one call: an update looks like the next batch.
            if (before, moment.kind) != (REDUCED, DATA):
                phases.append((_PHASE_UNTIL[moment.kind], since, moment.at_ns))
            since = moment.at_ns
        before = moment.kind
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
