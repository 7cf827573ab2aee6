"""Records ``model.fit`` of an unmodified Keras script under a strategy of ``tf.distribute``.

A strategy reduces within its compiled step, of which nothing is seen: a step is what lies between
the ends of two batches, and its blocked time is missing. A failure in here ends the recording and
never the training.
"""

from types import ModuleType

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.session_factory import own_identity
from hvdprof.collect.tensorflow.tensorflow_guards import Call, EagerCalls, replace
from hvdprof.rundir.launch_format import AutoSettings
from hvdprof.rundir.plan import TF_CENTRAL_STORAGE, TF_MIRRORED, TF_MULTIWORKER, TF_PARAMETER_SERVER

_KERAS_BATCH = 32
"""What Keras takes of arrays at a time, where nothing is said."""

# The bases come first: a strategy for several workers is none for one.
_ENGINES = {
    "CollectiveAllReduceStrategy": TF_MULTIWORKER,
    "ParameterServerStrategy": TF_PARAMETER_SERVER,
    "CentralStorageStrategy": TF_CENTRAL_STORAGE,
    "MirroredStrategy": TF_MIRRORED,
}
# Datasets whose batches are those of the one before.
_SAME_BATCHES = ("Prefetch", "Options", "Repeat", "Take", "Skip", "Cache", "ParallelMap", "Map")


class StrategyRecorder:
    """The recording of one process, from its first strategy on."""

    def __init__(self, tf: ModuleType, settings: AutoSettings) -> None:
        self._tf = tf
        self._tracker = StepTracker(settings)
        self.recording = ProcessRecording(self._tracker)
        self._eager = EagerCalls(tf, self.recording)
        self._batch_size = 0

    def hook_calls(self) -> None:
        """Wait for a strategy."""
        # What every strategy of either name is made by; `object` has none of its own.
        base = self._tf.distribute.Strategy.__mro__[1]
        replace(base, "__init__", self._making)

    def _making(self, make: Call) -> Call:
        def guarded(strategy: object, *args: object, **kwargs: object) -> None:
            make(strategy, *args, **kwargs)
            names = [kind.__name__ for kind in type(strategy).__mro__]
            engine = next((own for name, own in _ENGINES.items() if name in names), "")
            if engine:
                self.recording.guarded(lambda: self._begin(engine))

        return guarded

    def _begin(self, engine: str) -> None:
        if not self.recording.begin():
            return
        keras = self._tf.keras
        replace(keras.Model, "fit", self._fit)
        for name in ("evaluate", "predict"):
            replace(keras.Model, name, self._eager.evaluation)
        replace(keras.callbacks.CallbackList, "on_train_batch_begin", self._batch_begins)
        replace(keras.callbacks.CallbackList, "on_train_batch_end", self._batch_ended)
        PROCESS.engine = engine
        collect.start()

    def _fit(self, call: Call) -> Call:
        def guarded(model: object, *args: object, **kwargs: object) -> object:
            given = args[0] if args else kwargs.get("x")
            batch_size = args[2] if len(args) > 2 else kwargs.get("batch_size")
            self.recording.guarded(lambda: self._fits(given, batch_size))
            return call(model, *args, **kwargs)

        return guarded

    def _fits(self, given: object, batch_size: object) -> None:
        of_arrays = batch_size if isinstance(batch_size, int) else _KERAS_BATCH
        total = global_batch(given) if hasattr(given, "element_spec") else of_arrays
        self._batch_size = total // own_identity().size

    def _batch_begins(self, call: Call) -> Call:
        def guarded(callbacks: object, *args: object, **kwargs: object) -> object:
            if self.recording.is_here():
                self.recording.guarded(lambda: self._tracker.computes(0))
            return call(callbacks, *args, **kwargs)

        return guarded

    def _batch_ended(self, call: Call) -> Call:
        def guarded(callbacks: object, *args: object, **kwargs: object) -> object:
            result = call(callbacks, *args, **kwargs)
            if self.recording.is_here():
                self.recording.guarded(self._ended)
            return result

        return guarded

    def _ended(self) -> None:
        self._tracker.fetched(self._batch_size)
        if own_identity().size > 1:
            _hooks.blocked_unseen()
        self._tracker.step_ended()


def global_batch(dataset: object) -> int:
    """The samples of a batch of a ``tf.data.Dataset`` for all workers; 0 where it does not say."""
    spec: object = getattr(dataset, "element_spec", None)
    while isinstance(spec, (tuple, list, dict)) and spec:
        spec = next(iter(spec.values() if isinstance(spec, dict) else spec))
    shape = getattr(spec, "shape", None)
    if shape is not None and shape.rank and shape[0]:
        return int(shape[0])
    source: object = dataset
    while source is not None:
        kind = type(source).__name__.strip("_").removesuffix("Dataset")
        if kind in ("Batch", "ParallelBatch"):
            return int(getattr(source, "_batch_size", 0))
        source = getattr(source, "_input_dataset", None) if kind in _SAME_BATCHES else None
    return 0


def record_training(tf: ModuleType) -> None:
    """Hook ``tensorflow`` as `hvdprof run` asked for; nothing where that fails."""
    try:
        StrategyRecorder(tf, AutoSettings.from_environment()).hook_calls()
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
