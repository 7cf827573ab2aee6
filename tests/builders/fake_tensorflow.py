"""What the recorder touches of TensorFlow and its Horovod, without them.

A compiled function is traced at its first call: Python runs, and operations that are made join its
graph. At every call the operations of the graph run, in their order.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any


class FakeTensor:
    """A tensor of which only the length is known."""

    def __init__(self, length: int, op: str = "MatMul") -> None:
        self.shape = _Shape(length)
        self.op = SimpleNamespace(type=op)


class _Shape:
    rank = 1

    def __init__(self, length: int) -> None:
        self._length = length

    def __getitem__(self, place: int) -> int:
        return self._length

    def num_elements(self) -> int:
        return self._length


class FakeTensorFlow:
    """The module ``tensorflow``, its calls replaced; what it computes takes milliseconds."""

    def __init__(self) -> None:
        self.graph: list[Callable[[], None]] | None = None
        self.gpus: list[str] = []
        self.function = _bound(Function, self)
        self.GradientTape = _bound(GradientTape, self)
        self.iterator_ops = SimpleNamespace(OwnedIterator=_bound(OwnedIterator, self))
        self.distribute = SimpleNamespace(
            **{kind.__name__: kind for kind in _strategies(_bound(StrategyBase, self))}
        )
        self.keras = SimpleNamespace(
            callbacks=SimpleNamespace(CallbackList=_bound(CallbackList, self)),
            Model=_bound(Model, self),
            optimizers=SimpleNamespace(Optimizer=_bound(Optimizer, self)),
        )
        v1 = SimpleNamespace(train=SimpleNamespace(Optimizer=_bound(Optimizer, self)))
        self.compat = SimpleNamespace(v1=v1)
        self.nest = SimpleNamespace(flatten=_flatten, map_structure=_map_structure)
        self.optional_ops = SimpleNamespace(_OptionalImpl=_bound(OptionalBatch, self))
        self.held: list[FakeTensor] = []
        self._awaited: list[Any] = []
        self.config = SimpleNamespace(get_visible_devices=lambda kind: self.gpus)

    def takes(self, ms: float) -> None:
        """Something is computed: now, or whenever the graph that is traced runs."""
        self.operation(lambda: time.sleep(ms / 1000))

    def operation(self, run: Callable[[], None]) -> None:
        if self.graph is None:
            run()
        else:
            self.graph.append(run)

    def executing_eagerly(self) -> bool:
        return self.graph is None

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, FakeTensor)

    def shape(self, tensor: FakeTensor) -> list[int]:
        return [tensor.shape[0]]

    def timestamp(self) -> "Timestamp":
        taken = Timestamp(tuple(self._awaited))
        self.operation(taken.take)
        return taken

    def identity(self, tensor: FakeTensor) -> FakeTensor:
        assert isinstance(self._awaited[0], Timestamp)
        self.held.append(tensor)
        return tensor

    def numpy_function(self, call: Callable[..., None], inputs: list[Any], _: Any) -> None:
        self.operation(lambda: call(*inputs))

    @contextlib.contextmanager
    def device(self, name: str) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def control_dependencies(self, tensors: list[Any]) -> Iterator[None]:
        assert all(tensor.op.type in ("MatMul", "Timestamp") for tensor in tensors)
        before, self._awaited = self._awaited, [*self._awaited, *tensors]
        yield
        self._awaited = before

    def slice(self, tensor: FakeTensor, begin: list[int], size: list[int]) -> FakeTensor:
        assert (begin, size) == ([0], [1])
        return FakeTensor(1)

    def reshape(self, tensor: FakeTensor, shape: list[int]) -> "FakeElements":
        assert shape == [-1]
        return FakeElements(tensor.shape[0])


class FakeElements(FakeTensor):
    """A tensor of one dimension, of which the first elements can be taken."""

    def __getitem__(self, taken: slice) -> FakeTensor:
        return FakeTensor(len(range(self.shape[0])[taken]))


class Timestamp:
    """The time at which an operation ran, as ``tf.timestamp()``; ``after`` are those before it."""

    op = SimpleNamespace(type="Timestamp")

    def __init__(self, after: tuple[Any, ...]) -> None:
        self.after = after
        self._seconds = 0.0

    def take(self) -> None:
        self._seconds = time.time()

    def __float__(self) -> float:
        return self._seconds


def _bound(kind: type, tf: FakeTensorFlow) -> Any:
    # A class of its own for every fake: calls of classes are replaced.
    return type(kind.__name__, (kind,), {"tf": tf})


class Function:
    """As ``tf.function`` makes one."""

    tf: FakeTensorFlow

    def __init__(self, python: Callable[..., Any]) -> None:
        self.python = python
        self.graph: list[Callable[[], None]] | None = None

    def __call__(self, *args: Any) -> Any:
        if self.tf.graph is not None:
            return self.python(*args)
        if self.graph is None:
            self.graph = self.tf.graph = []
            try:
                self.result = self.python(*args)
            finally:
                self.tf.graph = None
        for operation in self.graph:
            operation()
        return self.result


class GradientTape:
    """As ``tf.GradientTape``."""

    tf: FakeTensorFlow

    def gradient(self, target: Any, sources: Any) -> list[Any]:
        self.tf.takes(2)
        return list(sources)


class Optimizer:
    """As those of Keras."""

    tf: FakeTensorFlow

    def apply_gradients(self, pairs: Any) -> None:
        self._backend_apply_gradients(pairs)

    def _backend_apply_gradients(self, pairs: Any) -> None:
        self.tf.takes(1)


class OwnedIterator:
    """As ``iter()`` of a ``tf.data.Dataset``."""

    tf: FakeTensorFlow

    def __init__(self, batches: Any) -> None:
        self.batches = iter(batches)

    def __iter__(self) -> "OwnedIterator":
        return self

    def __next__(self) -> Any:
        return self._next_internal()

    def get_next(self, name: str = "") -> Any:
        return self._next_internal()

    def _next_internal(self) -> Any:
        self.tf.takes(1)
        return next(self.batches)


class OptionalBatch:
    """As ``tf.experimental.Optional``, of a batch."""

    tf: FakeTensorFlow

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def get_value(self, name: str = "") -> Any:
        self.tf.takes(1)
        return self.batch


class Model:
    """As those of Keras."""

    tf: FakeTensorFlow

    def evaluate(self) -> None:
        self.tf.takes(400)

    predict = evaluate

    def fit(self, x: Any, y: Any = None, batch_size: int | None = None, batches: int = 4) -> None:
        callbacks = self.tf.keras.callbacks.CallbackList()
        for number in range(batches):
            callbacks.on_train_batch_begin(number)
            self.tf.takes(2)
            callbacks.on_train_batch_end(number)


class CallbackList:
    """As that of Keras: what it calls is of the user."""

    tf: FakeTensorFlow

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        pass

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass


class StrategyBase:
    """As what every strategy is made by."""

    tf: FakeTensorFlow

    def __init__(self, extended: Any = None) -> None:
        pass


def _strategies(base: type) -> list[type]:
    strategy = type("Strategy", (base,), {})
    names = ("MirroredStrategy", "CollectiveAllReduceStrategy", "_DefaultDistributionStrategy")
    kinds = [type(name, (strategy,), {}) for name in names]
    multi = type("MultiWorkerMirroredStrategy", (kinds[1],), {})
    return [strategy, *kinds, multi]


def fake_horovod(tf: FakeTensorFlow) -> SimpleNamespace:
    """The module ``horovod.tensorflow``; a reduction takes 3 ms, any other collective 1."""

    def make(*_: Any) -> Callable[..., Any]:
        def reduce(gradients: list[Any], variables: Any = None) -> list[Any]:
            tf.takes(3)
            return gradients

        return reduce

    def allreduce(tensor: Any) -> Any:
        tf.takes(1)
        return tensor

    return SimpleNamespace(
        _make_allreduce_grads_fn=make, allreduce=allreduce, shutdown=lambda: None
    )


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in _flatten(one)]
    return [value]


def _map_structure(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_map_structure(change, one) for one in value)
    return change(value)
