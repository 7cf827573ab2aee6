"""Guarded calls of TensorFlow that Python makes one by one: batches, gradients, updates."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from hvdprof import collect
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.guarded_context import opened
from hvdprof.collect.steps.step_marks import OPTIMIZER_PHASE

Call = Callable[..., object]


def replace(kind: object, name: str, guard: Callable[..., Call]) -> None:
    """Replace a method of a class, or a function of a module, by one that guards it."""
    call = getattr(kind, name)
    setattr(kind, name, not_converted(functools.wraps(call)(guard(call))))


def not_converted(call: Call) -> Call:
    """A function that AutoGraph does not rewrite where a compiled function calls it."""
    # It asks for this attribute alone, and continues with the functions that it calls.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


class EagerCalls:
    """Batches that a script fetches itself, and steps of what is not compiled.

    A batch counts when it is trained on. A batch that was not trained on before the next of the
    same iterator is fetched was for evaluation. With several optimizers the first one ends the
    steps.
    """

    def __init__(self, tf: ModuleType, recording: ProcessRecording) -> None:
        self._tf = tf
        self._recording = recording
        self._tracker = recording.tracker
        self._unused: set[int] = set()
        self._num_fetched = 0
        self._awaits_update = False
        self._update_depth = 0
        self._first_optimizer: int | None = None

    def trains_on(self, value: object) -> None:
        """A call that trains begins, on the batch fetched last, else on its own arguments."""
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
        """The guard of an iterator's next batch."""

        def guarded(iterator: object, *args: object, **kwargs: object) -> object:
            if not self._recording.is_here():
                return call(iterator, *args, **kwargs)
            if id(iterator) in self._unused:
                with self._evaluating(is_over=True):
                    pass
            with opened(self._recording.fails, self._tracker.fetching):
                batch = call(iterator, *args, **kwargs)
            self._recording.guarded(lambda: self._fetched(iterator, batch))
            return batch

        return guarded

    def gradient(self, call: Call) -> Call:
        """The guard of a tape's gradients."""

        def guarded(tape: object, *args: object, **kwargs: object) -> object:
            if not self._recording.is_here():
                return call(tape, *args, **kwargs)
            self._recording.guarded(lambda: self.trains_on(()))
            with opened(self._recording.fails, self._tracker.backward):
                return call(tape, *args, **kwargs)

        return guarded

    def update(self, call: Call) -> Call:
        """The guard of ``apply_gradients`` of an optimizer, or of ``apply`` of Keras 3."""

        def guarded(optimizer: object, *args: object, **kwargs: object) -> object:
            is_update = self._awaits_update or _reduces_within(optimizer)
            if not is_update or not self._tf.executing_eagerly() or not self._recording.is_here():
                return call(optimizer, *args, **kwargs)
            self._update_depth += 1
            try:
                with collect.phase(OPTIMIZER_PHASE):
                    result = call(optimizer, *args, **kwargs)
            finally:
                self._update_depth -= 1
            self._recording.guarded(lambda: self._updated(optimizer))
            return result

        return guarded

    def evaluation(self, call: Call) -> Call:
        """The guard of ``evaluate`` and ``predict`` of a Keras model."""

        def guarded(model: object, *args: object, **kwargs: object) -> object:
            if not self._recording.is_here():
                return call(model, *args, **kwargs)
            with self._evaluating(is_over=False):
                return call(model, *args, **kwargs)

        return guarded

    def _evaluating(self, *, is_over: bool) -> AbstractContextManager[None]:
        return opened(self._recording.fails, self._tracker.evaluates, is_over=is_over)

    def _fetched(self, iterator: object, batch: object) -> None:
        self._unused.add(id(iterator))
        self._num_fetched = batch_length(self._tf, batch)

    def _updated(self, optimizer: object) -> None:
        if self._update_depth or not self._awaits_update:
            return
        self._first_optimizer = self._first_optimizer or id(optimizer)
        if id(optimizer) == self._first_optimizer:
            self._awaits_update = False
            self._tracker.step_ended()


def _reduces_within(optimizer: object) -> bool:
    # Horovod's for Keras 3, alone in defining this: others have reduced before their update.
    return "_backend_apply_gradients" in vars(type(optimizer))


def first_batched(tf: ModuleType, value: object) -> Any:
    """The first tensor or array of a structure that has at least one dimension; None without."""
    return next((leaf for leaf in tf.nest.flatten(value) if _num_dimensions(leaf)), None)


def batch_length(tf: ModuleType, value: object) -> int:
    """The first dimension of that tensor or array; 0 where there is none or it is not known."""
    first = first_batched(tf, value)
    return 0 if first is None else int(first.shape[0] or 0)


def flat_tensors(tf: ModuleType, value: object) -> list[object]:
    """The tensors of a structure, without anything else in it."""
    return [leaf for leaf in tf.nest.flatten(value) if tf.is_tensor(leaf)]


def _num_dimensions(value: object) -> int:
    shape = getattr(value, "shape", None)
    # An array has a tuple, a tensor an object whose rank may be unknown.
    return len(shape) if isinstance(shape, tuple) else int(getattr(shape, "rank", None) or 0)
