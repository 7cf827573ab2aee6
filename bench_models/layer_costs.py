"""What the layers of a model cost, counted on torch's meta device without computing."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def layer_costs(model: nn.Module, inputs: Sequence[Tensor]) -> dict[str, int]:
    """Multiplications of a sample in every layer with parameters, in the order of execution.

    The elements of a layer's weights times the places that a channel of its output has. Biases do
    not count. A layer that is called several times has the sum, at its first place; one that is
    never called is missing.

    Args:
        model: On the meta device; it is called once.
        inputs: Its arguments on the meta device, the batch in the first dimension.
    """
    costs: dict[str, int] = {}
    hooks = [
        module.register_forward_hook(_counting(costs, name))
        for name, module in model.named_modules()
        if next(module.parameters(recurse=False), None) is not None
    ]
    model(*inputs)
    for hook in hooks:
        hook.remove()
    return costs


def _counting(costs: dict[str, int], name: str) -> Callable[[nn.Module, object, object], None]:
    def count(module: nn.Module, _inputs: object, output: object) -> None:
        costs[name] = costs.get(name, 0) + _multiplications(module, _first_tensor(output))

    return count


def _multiplications(module: nn.Module, output: Tensor | None) -> int:
    weight = getattr(module, "weight", None)
    if output is None or output.dim() == 0:
        return 0
    of_sample = output[0].numel()
    if isinstance(weight, Tensor) and of_sample % weight.shape[0] == 0:
        return weight.numel() * (of_sample // weight.shape[0])
    # Several weights, as of attention and recurrent layers: each is used once per place.
    matrices = [parameter for parameter in module.parameters(recurse=False) if parameter.dim() > 1]
    return sum(matrix.numel() for matrix in matrices) * (of_sample // max(1, output.shape[-1]))


def _first_tensor(output: object) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        return next((tensor for tensor in map(_first_tensor, output) if tensor is not None), None)
    return None


def on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    """What a function builds, without memory for its parameters."""
    with torch.device("meta"):
        return build()
