"""Brackets around calls of TensorFlow that Python makes one by one: batches, gradients, updates."""

import functools
from collections.abc import Callable
from typing import Any

from hvdprof import collect
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE
from hvdprof.collect.tensorflow.tensor_shapes import batch_length

Call = Callable[..., Any]


def replace(kind: Any, name: str, bracket: Callable[[Call], Call]) -> None:
    """Put a bracket around a method of a class, or around a function of a module."""
    call = getattr(kind, name)
    setattr(kind, name, left_as_it_is(functools.wraps(call)(bracket(call))))


def left_as_it_is(call: Call) -> Call:
    """A function that AutoGraph does not rewrite where a compiled function calls it."""
    # It asks for this attribute alone, and goes on with what the function calls.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


class EagerCalls:
    """Batches that a script fetches itself, and steps of what is not compiled.

    A batch counts when it is trained on. One that nobody trained on before the next of the same
    iterator is fetched was for evaluation. With several optimizers the first one ends the steps.

    Args:
        tf: The module ``tensorflow``.
        recording: That of the process.
    """

    def __init__(self, tf: Any, recording: ProcessRecording) -> None:
        self._tf = tf
        self._recording = recording
        self._tracker = recording.tracker
        self._unused: set[int] = set()
        self._num_fetched = 0
        self._awaits_update = False
        self._update_depth = 0
        self._first_optimizer: int | None = None

    def trains_on(self, value: Any) -> None:
        """A call that trains begins, on the batch fetched last, else on the value handed to it."""
        self._tracker.computes(self.take_batch() or batch_length(self._tf, value))

    def take_batch(self) -> int:
        """The batch fetched last is trained on: its samples, 0 where they have been taken."""
        self._unused.clear()
        taken, self._num_fetched = self._num_fetched, 0
        return taken

    def reduced(self) -> None:
        """Gradients were reduced; the next update ends the step."""
        self._awaits_update = True

    def fetch(self, call: Call) -> Call:
        """The bracket of an iterator's next batch."""

        def bracketed(iterator: Any) -> Any:
            if not self._recording.is_here():
                return call(iterator)
            if id(iterator) in self._unused:
                self._recording.guarded(self._tracker.evaluates)
            with self._tracker.fetching():
                batch = call(iterator)
            self._recording.guarded(lambda: self._fetched(iterator, batch))
            return batch

        return bracketed

    def gradient(self, call: Call) -> Call:
        """The bracket of a tape's gradients."""

        def bracketed(tape: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._recording.is_here():
                return call(tape, *args, **kwargs)
            self._recording.guarded(lambda: self.trains_on(()))
            with self._tracker.backward():
                return call(tape, *args, **kwargs)

        return bracketed

    def update(self, call: Call) -> Call:
        """The bracket of ``apply_gradients`` of an optimizer."""

        def bracketed(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            is_eager = self._tf.executing_eagerly()
            if not self._awaits_update or not is_eager or not self._recording.is_here():
                return call(optimizer, *args, **kwargs)
            self._update_depth += 1
            try:
                with collect.phase(OPTIMIZER_PHASE):
                    result = call(optimizer, *args, **kwargs)
            finally:
                self._update_depth -= 1
            self._recording.guarded(lambda: self._updated(optimizer))
            return result

        return bracketed

    def evaluation(self, call: Call) -> Call:
        """The bracket of ``evaluate`` and ``predict`` of a Keras model."""

        def bracketed(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._recording.is_here():
                self._recording.guarded(self._tracker.evaluates)
            return call(model, *args, **kwargs)

        return bracketed

    def _fetched(self, iterator: Any, batch: Any) -> None:
        self._unused.add(id(iterator))
        self._num_fetched = batch_length(self._tf, batch)

    def _updated(self, optimizer: Any) -> None:
        if self._update_depth:
            return
        self._first_optimizer = self._first_optimizer or id(optimizer)
        if id(optimizer) == self._first_optimizer:
            self._awaits_update = False
            self._tracker.step_ended()
