"""How many samples a value of TensorFlow holds.

Tested by tests/collect/tensorflow/test_tensorflow_watch.py.
"""

from types import ModuleType
from typing import Any


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
