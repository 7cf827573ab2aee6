"""What the scripts share: layers that sleep instead of computing, and the bug of ``--fault``.

With ``SCRIPT_FAULT_LOG`` set to a folder each rank writes there what it really lost, step by step.
``SCRIPT_PRIORITY`` is the nice value of the ranks from their start on (Linux, root): other work on
a shared machine delays the end of a sleep by milliseconds, on one rank more than on another.
"""

import os
import random
import time
from argparse import ArgumentParser
from pathlib import Path

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import LOG_FOLDER, Fault
from benchmarks.scripts.priority import PRIORITY, take_priority
from tests.builders.no_compiler import leave_out_compiler

SCALE = float(os.environ.get("SCRIPT_WORK_SCALE", "1"))
NOISE = 0.02
"""Standard deviation of the time of a layer, as a share of it."""


# Nothing is compiled here, and the compiler is half of what a short rank costs a busy machine.
leave_out_compiler()
if PRIORITY in os.environ:
    take_priority(os.environ[PRIORITY])


def work(ms: float) -> None:
    """Take so many milliseconds, as an accelerator or another machine would, without a core."""
    time.sleep(max(ms, 0) * SCALE / 1e3)


def slow_down(fault: Fault, place: str, step: int, *, share: float = 1) -> None:
    """Lose the time of the fault, or a share of it, where it hits this rank in this step."""
    if fault.hits(place, hvd.rank(), step):
        begin_s = time.perf_counter()
        work(share * fault.ms)
        log_lost(step, time.perf_counter() - begin_s)


def log_lost(step: int, seconds: float) -> None:
    """Note what this rank lost in a step; nothing where no log is asked for."""
    folder = os.environ.get(LOG_FOLDER)
    if folder:
        log = Path(folder) / f"np{hvd.size()}-rank{hvd.rank()}.csv"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{step},{seconds:.6f}\n")


def add_fault_option(parser: ArgumentParser) -> None:
    """The option ``--fault``."""
    parser.add_argument("--fault", type=Fault.parse, default=Fault(), metavar="PLACE:KEY=VALUE:...")


class Layer(torch.nn.Module):
    """A linear layer whose forward and backward pass take the given times in ms, within 2 %.

    While it trains it loses the time of the fault in its places forward, backward and batch, in
    equal shares if a step has several passes.
    """

    def __init__(
        self,
        features: tuple[int, int],
        times_ms: tuple[float, float],
        fault: Fault | None = None,
        *,
        passes_per_step: int = 1,
    ) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(*features)
        self.forward_ms, self.backward_ms = times_ms
        self.fault = fault or Fault()
        self.passes_per_step = passes_per_step
        self.num_passes = 0
        self.noise = random.Random(hvd.rank())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The output, later."""
        self.take(self.forward_ms)
        step = self.num_passes // self.passes_per_step
        if self.training and torch.is_grad_enabled():
            self.lose("forward", step, 1)
            self.lose("batch", step, 1 / 3)
            self.num_passes += 1
        later: torch.Tensor = SlowBackward.apply(self.linear(inputs), self, step)
        return later

    def take(self, ms: float) -> None:
        """The usual time of a pass."""
        work(ms * self.noise.gauss(1, NOISE))

    def lose(self, place: str, step: int, share: float) -> None:
        """A share of the fault's time."""
        slow_down(self.fault, place, step, share=share / self.passes_per_step)


class SlowBackward(torch.autograd.Function):
    """The identity whose backward pass takes the layer's time."""

    @staticmethod
    def forward(ctx, inputs, layer, step):  # type: ignore[no-untyped-def]
        """The input."""
        ctx.layer, ctx.step = layer, step
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """The gradient, later."""
        ctx.layer.take(ctx.layer.backward_ms)
        ctx.layer.lose("backward", ctx.step, 1)
        ctx.layer.lose("batch", ctx.step, 2 / 3)
        return gradient, None, None
