"""A model that waits instead of computing: real gradients, names and hooks, but no arithmetic.

It measures the network and Horovod itself where there are no GPUs: ranks that wait need no cores.
"""

import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from hvdprof.bench_models.core_queue import CoreQueue
from hvdprof.bench_models.layer_costs import layer_costs, on_meta

FORWARD_SHARE = 1 / 3


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
