"""How many samples a value of TensorFlow holds."""

from typing import Any


def first_batched(tf: Any, value: Any) -> Any:
    """The first tensor or array of a structure that has at least one dimension; None without."""
    return next((one for one in tf.nest.flatten(value) if _num_dimensions(one)), None)


def batch_length(tf: Any, value: Any) -> int:
    """The first dimension of that tensor or array; 0 where there is none or it is not known."""
    found = first_batched(tf, value)
    return 0 if found is None else int(found.shape[0] or 0)


def flat_tensors(tf: Any, value: Any) -> list[Any]:
    """The tensors of a structure, without anything else in it."""
    return [one for one in tf.nest.flatten(value) if tf.is_tensor(one)]


def _num_dimensions(value: Any) -> int:
    shape = getattr(value, "shape", None)
    # An array has a tuple, a tensor an object whose rank may be unknown.
    return len(shape) if isinstance(shape, tuple) else int(getattr(shape, "rank", None) or 0)
