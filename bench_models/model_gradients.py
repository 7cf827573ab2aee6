"""The gradients of a model without running it: names, sizes, order and share of backward.

Models are built and called on torch's meta device, which computes and allocates nothing.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from hvdprof.bench_models.emulated import layer_costs, on_meta, reference_costs
from hvdprof.bench_models.registry import MODELS, model_named
from hvdprof.errors import UsageError
from hvdprof.rundir.plan import EMULATED


@dataclass(frozen=True, slots=True)
class ModelGradients:
    """What backward produces, in its order, before compression.

    ``costs`` say what part of backward passes between the gradient before and this one: the
    multiplications per sample of the layers in between. Where ``is_counted`` is false the layers
    were not called: the order is that of their declarations, reversed, and a cost is the number of
    elements.
    """

    names: tuple[str, ...]
    size_bytes: tuple[int, ...]
    dtypes: tuple[str, ...]
    costs: tuple[int, ...]
    is_counted: bool


def model_gradients(name: str) -> ModelGradients:
    """The gradients of a reference model, or of the model that a function of the user returns.

    Args:
        name: A reference model (``vgg16``), an emulated one, or ``module:function``. The function
            takes nothing and returns the model, or the model and a tuple of example inputs, with
            the batch in their first dimension. The module may be in the working directory.

    Raises:
        UsageError: There is no such model, module or function, or the model cannot be built or
            called without values.
    """
    if name.startswith(EMULATED) or ":" not in name:
        entry = model_named(name)
        shape = (1, entry.in_channels, entry.image_size, entry.image_size)
        costs = reference_costs(entry.build_reference, shape)
        return _described(on_meta(entry.build_reference), costs, divisor=entry.divisor)
    model, inputs = _of_user(name)
    if not inputs:
        return _described(model, None)
    try:
        return _described(model, layer_costs(model, inputs))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        raise UsageError(
            f"The model of {name} cannot be called on torch's meta device: {error}",
            hint="Return the model without inputs: the order is that of its declarations then.",
        ) from error


def _of_user(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except ImportError as error:
        raise UsageError(
            f"The module of {name} cannot be imported: {error}",
            hint=f"Known models are {', '.join(model.name for model in MODELS)}.",
        ) from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise UsageError(
            f"{module_name} has no function {function_name!r}.",
            hint="module:function returns the model, or the model and a tuple of inputs.",
        )
    try:
        with torch.device("meta"):
            made = function()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise UsageError(
            f"{name} builds no model on torch's meta device: {error}",
            hint="The function takes nothing, loads no weights and reads no values of tensors.",
        ) from error
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
    if not isinstance(model, nn.Module) or not isinstance(inputs, tuple):
        raise UsageError(
            f"{name} returns {type(made).__name__}, which is no torch model.",
            hint="Return the model, or the model and a tuple of inputs.",
        )
    return model, tuple(tensor.to("meta") for tensor in inputs)


def _described(
    model: nn.Module, costs: Mapping[str, int] | None, *, divisor: int = 1
) -> ModelGradients:
    """The gradients in the order of backward; those of layers that were not called come last."""
    layers = {
        layer: [
            (f"{layer}.{own}".lstrip("."), parameter)
            for own, parameter in module.named_parameters(recurse=False)
            if parameter.requires_grad
        ]
        for layer, module in model.named_modules()
    }
    called = list(layers) if costs is None else list(costs)
    order = [*reversed(called), *reversed([layer for layer in layers if layer not in called])]
    # A weight that layers share is ready when backward is through the last of them.
    last = {id(parameter): layer for layer in order for _, parameter in layers[layer]}
    rows: list[tuple[str, Tensor, int]] = []
    passed = 0
    for layer in order:
        passed += _size(layers[layer]) if costs is None else costs.get(layer, 0)
        for name, parameter in reversed(layers[layer]):
            if last[id(parameter)] == layer:
                rows.append((name, parameter, passed))
                passed = 0
    if not rows:
        raise UsageError("The model has no parameter that is trained.")
    return ModelGradients(
        names=tuple(name for name, _, _ in rows),
        size_bytes=tuple(-(-one.numel() // divisor) * one.element_size() for _, one, _ in rows),
        dtypes=tuple(str(one.dtype).removeprefix("torch.") for _, one, _ in rows),
        costs=tuple(cost for _, _, cost in rows),
        is_counted=costs is not None,
    )


def _size(parameters: Sequence[tuple[str, Tensor]]) -> int:
    return sum(parameter.numel() for _, parameter in parameters)
