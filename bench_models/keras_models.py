"""The twins of reference models in Keras: the same layers and numbers of parameters."""

from types import ModuleType
from typing import Any, TypeAlias

from hvdprof.bench_models.registry import BenchModel

Keras: TypeAlias = Any
"""An object of TensorFlow or Keras: type checkers see neither."""


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
