"""What the recorder costs per step: the same training with it on and off, in turn.

    python benchmarks/recorder_cost.py                        one process, plain torch
    mpirun -np 2 python benchmarks/recorder_cost.py           two ranks under Horovod
    torchrun --nproc-per-node 2 benchmarks/recorder_cost.py --engine ddp,fsdp
    python benchmarks/recorder_cost.py --lines 20             sampled lines alone

The method is that of ``hvdprof.bench_models.recorder_cost``, which `hvdprof selftest` uses too.
Each case has a row for the full and one for the light recording (`--light`). Cases of layers sleep
once in forward and once in backward instead of computing: the ranks do not compete for cores, so
that costs of some µs are visible. With ``--lines HZ``, on and off are the recorder with and without
the samples of lines.

Tested by tests/benchmarks/test_recorder_cost.py.
"""

import argparse
import gc
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hvdprof.bench_models.ddp_engine import DdpEngine
from hvdprof.bench_models.engine import Engine
from hvdprof.bench_models.horovod_engine import HorovodEngine
from hvdprof.bench_models.recorder_cost import (
    Block,
    MeasuredCost,
    Training,
    cost_plan,
    measured_cost,
    plain_job,
)
from hvdprof.bench_models.training import Job
from hvdprof.collect.host_facts import identity_from_environment
from hvdprof.rundir.recording.line_format import LINES_HZ

MODELS = {"mnist": (28, 64), "resnet18": (32, 16)}
"""Reference models: edge of the image and batch size."""

LAYERS_MS = (2.0, 50.0)
NUM_LAYERS, WIDTH, BATCH = 8, 64, 8
TORCHRUN_ENGINES = ("ddp", "fsdp")


class _SleepInBackward(torch.autograd.Function):
    """Passes its input on, and sleeps in backward."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        time.sleep(ctx.seconds)
        return gradients[0], None


_sleep_in_backward: Callable[[Tensor, float], Tensor] = _SleepInBackward.apply


class _Layer(nn.Module):
    """A small layer that first sleeps in forward, and twice as long in backward."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self._seconds = seconds

    def forward(self, inputs: Tensor) -> Tensor:
        if self._seconds:
            time.sleep(self._seconds)
            inputs = _sleep_in_backward(inputs, 2 * self._seconds)
        return torch.relu(self.linear(inputs))


class _OneBatch:
    """The same batch again and again."""

    def __init__(self) -> None:
        self._batch = torch.randn(BATCH, WIDTH), torch.randint(WIDTH, (BATCH,))

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """The batch."""
        return self._batch


class LayerTraining(Training):
    """Layers of which the middle one sleeps, under DDP, FSDP2 or alone.

    Args:
        engine: ``ddp``, ``fsdp``, or anything else for plain torch.
        step_s: Time that it sleeps in a step.
    """

    def __init__(self, engine: str, step_s: float) -> None:
        self.batch_size = BATCH
        torch.manual_seed(1)
        # Each further sleep would add the time of a wake-up, which varies more than the cost.
        sleeps_s = [step_s / 3 if place == NUM_LAYERS // 2 else 0.0 for place in range(NUM_LAYERS)]
        model = nn.Sequential(*map(_Layer, sleeps_s))
        self.model: nn.Module = model
        if engine == "ddp":
            self.model = DistributedDataParallel(model)
        elif engine == "fsdp":
            for layer in model:
                fully_shard(layer)
            fully_shard(model)
        # After it is sharded: its parameters are others then.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self._batches: Any = _OneBatch()
        self._loss = nn.functional.cross_entropy


class SampledTraining(Training):
    """A training that is recorded on and off, and whose lines are sampled where it is on.

    Args:
        training: The training.
        hz: Samples per second.
    """

    def __init__(self, training: Training, hz: float) -> None:
        self._training, self._hz = training, hz

    def block(self, num_steps: int) -> Block:
        """Train that many steps, recorded without samples."""
        return self._sampled(num_steps, 0)

    def recorded_block(self, num_steps: int) -> Block:
        """The same with samples."""
        return self._sampled(num_steps, self._hz)

    def _sampled(self, num_steps: int, hz: float) -> Block:
        self._training.is_light = self.is_light
        os.environ[LINES_HZ] = f"{hz:g}"
        return self._training.recorded_block(num_steps)


def cases(job: Job, engine: str, wanted: Sequence[str]) -> Iterator[tuple[str, Training]]:
    """The trainings of an engine by their names."""
    if engine != "fsdp":
        # The reference models are not sharded.
        for name, (image_size, batch_size) in MODELS.items():
            if name in wanted:
                title = f"{name} {image_size}x{image_size}, batch {batch_size}"
                yield title, Training(job, name, image_size, batch_size)
    if engine != "horovod":
        for step_ms in LAYERS_MS:
            name = f"layers-{step_ms:.0f}ms"
            if name in wanted:
                yield name, LayerTraining(engine, step_ms / 1e3)


def measured(training: Training, engine: str, options: argparse.Namespace) -> MeasuredCost:
    """The cost of a training; without the direct cost under DDP and FSDP2.

    Their hooks ask the running ``backward()`` for callbacks, so they cannot be called alone.
    """
    return measured_cost(
        training,
        num_pairs=options.pairs,
        num_steps=options.steps,
        has_direct=engine not in TORCHRUN_ENGINES and not options.lines,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table on rank 0."""
    known = (*MODELS, *(f"layers-{step_ms:.0f}ms" for step_ms in LAYERS_MS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks, on and off")
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    parser.add_argument("--engine", default="", help="ddp, fsdp or both, below torchrun")
    parser.add_argument("--lines", type=float, default=0.0, help="measure samples alone, per s")
    parser.add_argument("--cases", default=",".join(known), help=f"any of {', '.join(known)}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    engines = [one for one in options.engine.split(",") if one]
    if unknown := set(engines) - set(TORCHRUN_ENGINES):
        parser.error(f"unknown engine {', '.join(sorted(unknown))}")
    job, engines = _job(engines)
    if job.engine.identity.rank == 0:
        _print_head(job.engine)
    for engine in engines:
        _measure(job, engine, options)
    # A model that outlived the process group would end that itself: Gloo's threads then wait for
    # the interpreter's lock, and it for them (torch 2.13, sometimes).
    gc.collect()
    job.engine.close()
    return 0


def _measure(job: Job, engine: str, options: argparse.Namespace) -> None:
    for title, training in cases(job, engine, options.cases.split(",")):
        one = SampledTraining(training, options.lines) if options.lines else training
        for is_light in (False, True):
            one.is_light = is_light
            cost = measured(one, engine, options)
            if job.engine.identity.rank == 0:
                _print_row(engine, title, cost, is_light=is_light)


def _print_head(engine: Engine) -> None:
    print(
        f"np {engine.identity.size}, torch {torch.__version__}, {os.cpu_count()} cores, "
        f"{platform.machine()}, load average {os.getloadavg()[0]:.1f}"
    )
    print(
        "| engine | model | recording | step off | wall on / off | CPU on / off "
        "| direct cost | of a step |"
    )
    print("|---|---|---|---|---|---|---|---|")


def _print_row(engine: str, title: str, cost: MeasuredCost, *, is_light: bool) -> None:
    direct, share = "-", "-"
    if not math.isnan(cost.direct_s):
        direct = f"{cost.direct_s * 1e6:.0f} µs"
        share = f"{100 * cost.direct_s / cost.step_s:.2f} %"
    print(
        f"| {engine} | {title} | {'light' if is_light else 'full'} | {cost.step_s * 1e3:.1f} ms "
        f"| {_interval_text(cost.wall)} | {_interval_text(cost.cpu)} | {direct} | {share} |",
        flush=True,
    )


def _interval_text(interval: tuple[float, float, float]) -> str:
    low, middle, high = interval
    return f"{middle:.4f} ({low:.4f} to {high:.4f})"


def _job(engines: list[str]) -> tuple[Job, list[str]]:
    """The ranks of this launch, and the engines to measure."""
    identity = identity_from_environment()
    if identity is None:
        return plain_job(), ["torch"]
    plan = cost_plan(identity.size)
    if engines:
        return Job(plan, "cpu", DdpEngine(plan)), engines
    return Job(plan, "cpu", HorovodEngine(plan)), ["horovod"]


if __name__ == "__main__":
    sys.exit(main())
