"""A model that waits instead of computing: real gradients, names and hooks, but no arithmetic.

It measures the network and Horovod itself where there are no GPUs: ranks that wait need no cores.
"""

import os
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_native_id
from typing import Any, Protocol

import torch
from torch import Tensor, nn

_STATISTICS = "/proc/thread-self/schedstat"

FORWARD_SHARE = 1 / 3


class CoreQueue:
    """Measures the time that a thread waits for a core, on Linux; elsewhere it is always 0.

    One thread at a time uses it: the first call of another one starts anew.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._thread = 0
        self._seen_ns = 0

    def passed_s(self) -> float:
        """Seconds since the previous call in which the thread waited for a core; 0 at first."""
        if self._thread != get_native_id():
            self._open()
        if self._file is None:
            return 0.0
        # Time on a core, time waiting for one, time slices; ns (Documentation/scheduler).
        waited_ns = int(os.pread(self._file, 96, 0).split()[1])
        passed_ns, self._seen_ns = waited_ns - self._seen_ns, waited_ns
        return passed_ns / 1e9

    def _open(self) -> None:
        self.close()
        self._thread = get_native_id()
        # Kernels without scheduler statistics have no such file.
        if Path(_STATISTICS).exists():
            self._file = os.open(_STATISTICS, os.O_RDONLY | os.O_CLOEXEC)
            self._seen_ns = int(os.pread(self._file, 96, 0).split()[1])

    def close(self) -> None:
        """Stop; a later call starts anew."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._thread = None, 0

    def __del__(self) -> None:
        """Close the file."""
        self.close()


class _Context(Protocol):
    """What autograd carries from forward to backward of a layer."""

    wait: Callable[[float], None]
    layer_s: float
    likes: tuple[Tensor, ...]


@dataclass(slots=True)
class _Waiting:
    """Waits for the requested time in sum, less the time that the thread waited for a core.

    A wait that took too long shortens the next ones. So does a core that other threads had: the
    accelerator that is emulated would not have waited for it.
    """

    debt_s: float = 0.0
    queue: CoreQueue = field(default_factory=CoreQueue)

    def wait(self, length_s: float) -> None:
        planned_s = length_s - self.debt_s - self.queue.passed_s()
        begin_s = time.perf_counter()
        if planned_s > 0:
            time.sleep(planned_s)
        self.debt_s = time.perf_counter() - begin_s - planned_s
        # What the thread queued for within the wait is in the debt.
        self.forget_queue()

    def forget_queue(self) -> None:
        """Let what the thread has queued for so far shorten nothing: it was blocked, or updated."""
        self.queue.passed_s()


def emulate(model: nn.Module, costs: dict[str, int], num_classes: int, step_s: float) -> nn.Module:
    """The model, whose forward and backward wait from now on.

    Forward waits for ``FORWARD_SHARE`` of the step and backward for the rest, since the gradients
    by weights and by inputs cost as much as forward each. Within backward, layers come in reverse
    order and wait in proportion to their costs; the gradients of a layer, all zero, are ready when
    its wait is over. Updates and communication are real and come on top of ``step_s``. Where the
    thread waits for a core within backward, the next layers wait less by as much.

    Args:
        model: Changed in place; its parameters keep their names.
        costs: By name of a layer, in the order of execution, what its forward costs.
        num_classes: Columns of the output, which is all zero.
        step_s: Seconds that forward and backward take together.
    """
    layers = [
        (list(model.get_submodule(name).parameters(recurse=False)), cost)
        for name, cost in costs.items()
    ]
    total = sum(costs.values())
    backward_s = step_s * (1 - FORWARD_SHARE)
    waiting = _Waiting()
    # torch does not annotate it.
    layer: Any = _Layer.apply

    def forward(_model: nn.Module, images: Tensor) -> Tensor:
        waiting.forget_queue()
        waiting.wait(step_s * FORWARD_SHARE)
        output = images.new_zeros((len(images), num_classes))
        for parameters, cost in layers:
            layer_s = backward_s * cost / total
            output = layer(output, waiting.wait, layer_s, *parameters)
        return output

    model.forward = types.MethodType(forward, model)
    return model


def shrunk(build: Callable[[], nn.Module], divisor: int) -> nn.Module:
    """The model with flat parameters of 1 / ``divisor`` of their elements, rounded up, all zero.

    Names and order stay. Together with a link whose rate is divided alike, transfers take as long
    as those of the whole model. ``divisor`` 1 is the model itself, with its weights. A shrunk model
    cannot compute: it is for ``emulate``.
    """
    if divisor == 1:
        return build()
    # Not allocated at full size, which many ranks of one machine may have no memory for.
    model = on_meta(build)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            length = -(-parameter.numel() // divisor)
            setattr(module, name, nn.Parameter(torch.zeros(length, dtype=parameter.dtype)))
        for name, buffer in list(module.named_buffers(recurse=False)):
            shape = (-(-buffer.numel() // divisor),) if buffer.dim() else ()
            setattr(module, name, torch.zeros(shape, dtype=buffer.dtype))
    return model


def reference_costs(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> dict[str, int]:
    """``layer_costs`` of a model of images of this shape, the batch first."""
    return layer_costs(on_meta(build), (torch.empty(shape, device="meta"),))


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        output: Tensor,
        wait: Callable[[float], None],
        layer_s: float,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.wait, ctx.layer_s = wait, layer_s
        # Not saved for backward: the values are not needed, and the update may change them.
        ctx.likes = parameters
        return output.clone()

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.wait(ctx.layer_s)
        return gradients[0], None, None, *(torch.zeros_like(like) for like in ctx.likes)


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
