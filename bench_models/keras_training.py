"""The training loop of Keras twins under a strategy of ``tf.distribute``.

A step is one call of a compiled function, in which the strategy computes and reduces: it has no
phases, and what of it is waiting is not known.
"""

import importlib.util
import math
import os
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

from hvdprof import collect
from hvdprof.bench_models.placement import pin_to_own_cores
from hvdprof.bench_models.registry import BenchModel, model_named
from hvdprof.collect import _hooks
from hvdprof.collect.host_facts import identity_from_environment
from hvdprof.rundir.plan import KERAS_TWIN, TF_CENTRAL_STORAGE, TF_OF_ONE_PROCESS, Plan, Segment

MIN_STEPS = 10

Keras: TypeAlias = Any
"""An object of TensorFlow or Keras: type checkers see neither."""


class KerasJob:
    """The replicas that train together under the plan's strategy, in this process or several."""

    def __init__(self, plan: Plan, tf: ModuleType, strategy: Keras) -> None:
        self._plan = plan
        self.rank = _own_rank()
        self._tf: Keras = tf
        self._strategy: Keras = strategy
        size = plan.size
        collect.start(rank=self.rank, size=size, local_rank=self.rank, local_size=size)

    @property
    def size(self) -> int:
        """The number of replicas that the strategy has joined."""
        return int(self._strategy.num_replicas_in_sync)

    def run(self, segment: Segment) -> tuple[int, float]:
        """Train one segment; the number of measured steps and their mean length in ns."""
        self._tf.random.set_seed(self._plan.seed + self.rank)
        with collect.segment(segment.id):
            step = self._step_of(segment)
            durations_s = [self._train(step, 1, segment, warmup=True) / 1e9]
            for _ in range(max(segment.num_warmup_batches, 2) - 1):
                durations_s.append(self._train(step, 1, segment, warmup=True) / 1e9)
            num_steps = self._agreed(
                segment, statistics.median(durations_s[len(durations_s) // 2 :])
            )
            length_ns = self._train(step, num_steps, segment, warmup=False)
        return num_steps, length_ns / num_steps

    def _train(
        self, step: Callable[[], float], count: int, segment: Segment, *, warmup: bool
    ) -> int:
        begin_ns = time.monotonic_ns()
        for _ in range(count):
            with collect.step(samples=segment.batch_size, warmup=warmup):
                collect.loss(step())
                if self.size > 1:
                    _hooks.blocked_unseen()
        return time.monotonic_ns() - begin_ns

    def _step_of(self, segment: Segment) -> Callable[[], float]:
        tf, strategy = self._tf, self._strategy
        model = model_named(segment.model.removeprefix(KERAS_TWIN))
        replica = self._replica(segment, model)
        shape = (segment.batch_size, segment.image_size, segment.image_size, model.in_channels)
        images, labels = (
            strategy.experimental_distribute_values_from_function(make)
            for make in (
                lambda _: tf.random.normal(shape),
                lambda _: tf.random.uniform(shape[:1], 0, model.num_classes, tf.int64),
            )
        )

        @tf.function  # type: ignore[untyped-decorator]
        def train() -> Keras:
            return strategy.reduce("SUM", strategy.run(replica, args=(images, labels)), axis=None)

        return lambda: float(train())

    def _replica(self, segment: Segment, model: BenchModel) -> Callable[[Keras, Keras], Keras]:
        """One step of one replica, as a function of images and labels; its share of the loss."""
        tf, num_replicas = self._tf, int(self._strategy.num_replicas_in_sync)
        with self._strategy.scope():
            twin = keras_twin(tf.keras, model, segment.image_size)
            rate = model.learning_rate * num_replicas
            optimizer = tf.keras.optimizers.SGD(rate, momentum=model.momentum)
            optimizer.build(twin.trainable_variables)
        criterion = tf.keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="none"
        )

        def replica(images: Keras, labels: Keras) -> Keras:
            with tf.GradientTape() as tape:
                losses = criterion(labels, twin(images, training=True))
                loss = tf.reduce_sum(losses) / (segment.batch_size * num_replicas)
            gradients = tape.gradient(loss, twin.trainable_variables)
            optimizer.apply_gradients(zip(gradients, twin.trainable_variables, strict=True))
            return loss

        return replica

    def _agreed(self, segment: Segment, warmup_s: float) -> int:
        """The number of measured steps, the same on all workers."""
        if segment.max_seconds is None:
            return segment.num_steps or MIN_STEPS
        mean_s = self._mean_of_all(warmup_s)
        wanted = max(MIN_STEPS, math.ceil(segment.max_seconds / max(mean_s, 1e-9)))
        return wanted if segment.num_steps is None else min(wanted, segment.num_steps)

    def _mean_of_all(self, seconds: float) -> float:
        own = self._strategy.run(lambda: self._tf.constant(seconds))
        return float(self._strategy.reduce("MEAN", own, axis=None))


def prepared_tensorflow(num_threads: int) -> ModuleType:
    """The module ``tensorflow`` with so many threads per operation, with Keras 2 where it can."""
    if importlib.util.find_spec("tf_keras") is not None:
        # Under CentralStorageStrategy layers of Keras 3 do not normalise.
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    module: ModuleType = tf
    return module


def _own_rank() -> int:
    place = identity_from_environment()
    return 0 if place is None else place.rank


def replicas_here(plan: Plan) -> KerasJob:
    """The job of a strategy whose processes, one or several, are all alike."""
    engine = plan.segments[0].engine
    # Replicas of one process share its threads.
    num_here = plan.size if engine in TF_OF_ONE_PROCESS else 1
    num_threads = plan.num_threads * num_here
    if plan.pin_cores:
        pin_to_own_cores(_own_rank(), num_threads)
    tf = prepared_tensorflow(num_threads)
    return KerasJob(plan, tf, _strategy(tf, engine, num_here))


def _strategy(tf: ModuleType, engine: str, num_replicas: int) -> Keras:
    if engine not in TF_OF_ONE_PROCESS:
        return tf.distribute.MultiWorkerMirroredStrategy()
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU":
        (processor,) = tf.config.list_physical_devices(kind)
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(num_replicas)]
        tf.config.set_logical_device_configuration(processor, parts)
    devices = [device.name for device in tf.config.list_logical_devices(kind)][:num_replicas]
    if engine == TF_CENTRAL_STORAGE:
        return tf.distribute.experimental.CentralStorageStrategy(devices, "/CPU:0")
    return tf.distribute.MirroredStrategy(devices)


def keras_twin(keras: ModuleType, model: BenchModel, image_size: int) -> Keras:
    """The Keras model with fresh weights; it returns logits.

    Args:
        keras: ``tf.keras``, of version 2 or 3.
        model: The reference model, one of ``plan.KERAS_TWINS``.
        image_size: The edge of its images, in pixels.
    """
    layers = keras.layers
    images = layers.Input((image_size, image_size, model.in_channels))
    build = {"mnist": _mnist, "resnet18": _resnet18}[model.name]
    return keras.Model(images, layers.Dense(model.num_classes)(build(layers, images)))


def _mnist(layers: Keras, x: Keras) -> Keras:
    x = layers.ReLU()(layers.MaxPool2D()(layers.Conv2D(10, 5)(x)))
    x = layers.SpatialDropout2D(0.5)(layers.Conv2D(20, 5)(x))
    x = layers.Flatten()(layers.ReLU()(layers.MaxPool2D()(x)))
    return layers.Dropout(0.5)(layers.Dense(50, activation="relu")(x))


def _resnet18(layers: Keras, x: Keras) -> Keras:
    x = layers.ReLU()(_normed(layers, x, 64, 7, 2))
    x = layers.MaxPool2D(3, 2, padding="same")(x)
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage and not block else 1
            x = _block(layers, x, 64 * 2**stage, stride)
    return layers.GlobalAveragePooling2D()(x)


def _block(layers: Keras, x: Keras, channels: int, stride: int) -> Keras:
    out = layers.ReLU()(_normed(layers, x, channels, 3, stride))
    out = _normed(layers, out, channels, 3, 1)
    return layers.ReLU()(out + (x if stride == 1 else _normed(layers, x, channels, 1, stride)))


def _normed(layers: Keras, x: Keras, channels: int, edge: int, stride: int) -> Keras:
    convolved = layers.Conv2D(channels, edge, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(convolved)
