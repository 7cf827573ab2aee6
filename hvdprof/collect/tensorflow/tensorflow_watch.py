"""Records the training of an unmodified TensorFlow or Keras script.

All of Horovod's optimizers and tapes get the function that reduces gradients from one place, which
is replaced by a guarded one; so are calls of ``tf.function``, iterators of ``tf.data``, gradients
and updates, and the collectives that a script calls itself. A step ends behind the outermost call
in which gradients were reduced, or, where nothing is compiled, behind the update that follows. A
failure in here ends the recording and never the training.
"""

import functools
import itertools
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.tensorflow.graph_marks import LOSS, READY, REDUCED, GraphMarks, pieces
from hvdprof.collect.tensorflow.tensorflow_guards import (
    Call,
    EagerCalls,
    first_batched,
    flat_tensors,
    not_converted,
    replace,
)
from hvdprof.rundir.launch_format import AutoSettings

_BLOCKING = (
    *("allreduce", "grouped_allreduce", "allgather", "grouped_allgather", "broadcast"),
    *("broadcast_", "alltoall", "reducescatter", "grouped_reducescatter", "broadcast_variables"),
    *("broadcast_object", "allgather_object", "join"),
)
Tensors = Iterable[object]

_WAITS = {READY: 1, REDUCED: -1}


class TensorFlowRecorder:
    """The recording of one process, from its first distributed optimizer or tape on."""

    def __init__(self, hvd: ModuleType, tf: ModuleType, settings: AutoSettings) -> None:
        self._hvd = hvd
        self._tf = tf
        self._tracker = StepTracker(settings)
        self.recording = ProcessRecording(self._tracker)
        self._eager = EagerCalls(tf, self.recording)
        self._marks: weakref.WeakKeyDictionary[object, GraphMarks] = weakref.WeakKeyDictionary()
        self._outermost: object = None

    def hook_calls(self) -> None:
        """Guard the functions of Horovod and of TensorFlow that a script calls."""
        hvd: Any = self._hvd
        tf = self._tf
        replace(hvd, "_make_allreduce_grads_fn", self._making)
        hvd.shutdown = self.recording.ending(hvd.shutdown)
        for name in _BLOCKING:
            if hasattr(hvd, name):
                replace(hvd, name, self._blocked)
        replace(type(tf.function(lambda: None)), "__call__", self._outer_call)
        replace(tf.GradientTape, "gradient", self._gradient)
        operations = "tensorflow.python.data.ops"
        iterator = sys.modules[f"{operations}.iterator_ops"].OwnedIterator
        for name in ("__next__", "get_next"):
            replace(iterator, name, self._fetch)
        # So Keras 3 fetches where a call trains on several batches.
        optional = sys.modules[f"{operations}.optional_ops"]._OptionalImpl
        replace(optional, "get_value", self._batch_within)

    def _begin(self) -> None:
        if not self.recording.begin():
            return
        keras, v1 = self._tf.keras, self._tf.compat.v1
        legacy = getattr(keras.optimizers, "legacy", keras.optimizers)
        for kind in {keras.optimizers.Optimizer, legacy.Optimizer, v1.train.Optimizer}:
            # Of Keras 3 all updates pass `apply`; its legacy optimizers can only be named.
            names = (name for name in ("apply", "apply_gradients") if hasattr(kind, name))
            for name in itertools.islice(names, 1):
                replace(kind, name, self._eager.update)
        for name in ("evaluate", "predict"):
            replace(keras.Model, name, self._eager.evaluation)
        collect.start()

    def _making(self, make: Callable[..., Callable[..., Tensors]]) -> Call:
        def make_and_watch(*args: object, **kwargs: object) -> object:
            reduce = make(*args, **kwargs)
            self.recording.guarded(self._begin)
            return not_converted(functools.partial(self._reduce, reduce))

        return make_and_watch

    def _reduce(
        self, reduce: Callable[..., Tensors], gradients: Tensors, *args: object, **kwargs: object
    ) -> object:
        if not self.recording.is_here():
            return reduce(gradients, *args, **kwargs)
        if self._tf.executing_eagerly():
            self._eager.reduced()
            with _hooks.gradients_blocked():
                return reduce(gradients, *args, **kwargs)
        self._mark(READY, gradients)
        reduced = reduce(gradients, *args, **kwargs)
        self._mark(REDUCED, reduced)
        if self._outermost is not None:
            self._marks_of(self._outermost).reduces = True
        return reduced

    def _outer_call(self, call: Call) -> Call:
        recording = self.recording

        def guarded(function: object, *args: object, **kwargs: object) -> object:
            is_within = self._outermost is not None or not self._tf.executing_eagerly()
            # Also before the first optimizer or tape: a tape is often made in the call itself.
            if is_within or not recording.is_own():
                return call(function, *args, **kwargs)
            self._outermost = function
            try:
                recording.guarded(lambda: self._call_begins(function, (args, kwargs)))
                begin_ns = time.monotonic_ns()
                result = call(function, *args, **kwargs)
            finally:
                self._outermost = None
            recording.guarded(lambda: self._call_ended(function, begin_ns))
            return result

        return guarded

    def _call_begins(self, function: object, arguments: object) -> None:
        marks = self._marks.get(function)
        if marks is not None and marks.reduces:
            marks.take()
            self._eager.trains_on(arguments)

    def _call_ended(self, function: object, begin_ns: int) -> None:
        end_ns = time.monotonic_ns()
        marks = self._marks.get(function)
        if marks is None or not marks.reduces:
            return
        moments = marks.take()
        collect.passed(pieces(moments, begin_ns, end_ns))
        if not marks.reports:
            _hooks.blocked_unseen()
        # The batch of a call that was traced just now: only now is it known to train.
        num_samples = self._eager.take_batch() + sum(moment.num_samples for moment in moments)
        self._tracker.fetched(num_samples)
        # With several passes per step, gradients are reduced in the last of its calls alone.
        if not marks.reports or any(moment.kind == REDUCED for moment in moments):
            self._tracker.step_ended()

    def _gradient(self, call: Call) -> Call:
        eager = self._eager.gradient(call)

        def guarded(tape: object, target: object, *args: object, **kwargs: object) -> object:
            if self._tf.executing_eagerly():
                return eager(tape, target, *args, **kwargs)
            self._mark(LOSS, flat_tensors(self._tf, target))
            return call(tape, target, *args, **kwargs)

        return guarded

    def _fetch(self, call: Call) -> Call:
        eager, within = self._eager.fetch(call), self._batch_within(call)

        def guarded(iterator: object, *args: object, **kwargs: object) -> object:
            fetch = eager if self._tf.executing_eagerly() else within
            return fetch(iterator, *args, **kwargs)

        return guarded

    def _batch_within(self, call: Call) -> Call:
        """The guard of what fetches a batch within a compiled function."""

        def guarded(source: object, *args: object, **kwargs: object) -> object:
            batches = [call(source, *args, **kwargs)]
            if not self._tf.executing_eagerly():
                self.recording.guarded(lambda: batches.append(self._held(batches[0])))
            return batches[-1]

        return guarded

    def _held(self, batch: object) -> object:
        first = first_batched(self._tf, batch)
        if first is None or not self._marks_here():
            return batch
        return self._marks_of(self._outermost).hold(batch, first)

    def _blocked(self, call: Call) -> Call:
        def waiting(*args: object, **kwargs: object) -> object:
            # While a function is traced nothing runs yet.
            if not self.recording.is_own() or not self._tf.executing_eagerly():
                return call(*args, **kwargs)
            with collect.blocked():
                return call(*args, **kwargs)

        return waiting

    def _mark(self, kind: str, tensors: Iterable[object]) -> None:
        if self._marks_here():
            awaited, marks = list(tensors), self._marks_of(self._outermost)
            self.recording.guarded(lambda: marks.insert(kind, awaited))

    def _marks_here(self) -> bool:
        # Operations of a GPU end before it has computed them, so their order shows nothing.
        has_gpu = bool(self._tf.config.get_visible_devices("GPU"))
        return self._outermost is not None and not has_gpu and self.recording.is_here()

    def _marks_of(self, function: object) -> GraphMarks:
        return self._marks.setdefault(function, GraphMarks(self._tf, self._moment_passed))

    def _moment_passed(self, kind: str) -> None:
        _hooks.count_waits(_WAITS.get(kind, 0))


def record_training(hvd: ModuleType) -> None:
    """Hook ``horovod.tensorflow`` as `hvdprof run` asked for; nothing where that fails."""
    try:
        settings = AutoSettings.from_environment()
        TensorFlowRecorder(hvd, sys.modules["tensorflow"], settings).hook_calls()
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
