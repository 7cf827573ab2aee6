"""What the recorder costs a step: the same training with it on and off, in turn.

Blocks of steps alternate between on and off within one process, so that drift of the machine
meets both alike. A pair of neighbouring blocks gives one ratio of mean step times, by the wall
clock and by processor time, which other jobs on the machine disturb less; the result is the median
of these ratios with its 95 % interval (order statistics, which assume nothing about the
distribution). Means, because short steps are written several at once, after one of them. The direct
cost is the time that the calls of one step take in a tight loop.

``python -m hvdprof.bench_models.recorder_cost`` prints one JSON object. Tested in
``tests/bench_models/test_recorder_cost.py``.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hvdprof import collect
from hvdprof.bench_models.digit_data import SyntheticBatches
from hvdprof.bench_models.engine import PlainTorch
from hvdprof.bench_models.registry import BenchModel, model_named
from hvdprof.bench_models.training import Job, make_model
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, Plan, Segment
from hvdprof.rundir.recording.line_format import LIGHT


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """Medians over pairs of blocks.

    Ratios are with the recorder divided by without it: lower end of the 95 % interval, median,
    upper end.
    """

    step_s: float
    direct_s: float
    wall: tuple[float, float, float]
    cpu: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Block:
    """Mean time of a step of a block by the wall clock and of this process's CPU, in s."""

    wall_s: float
    cpu_s: float


class Training:
    """A model that trains as ``bench_models`` does, with or without the recorder.

    ``is_light`` says that the recorder writes windows instead of steps, ``device`` where the model
    computes.
    """

    is_light = False
    device = "cpu"

    def __init__(self, job: Job, name: str, image_size: int, batch_size: int) -> None:
        self.device = job.device
        self.entry: BenchModel = model_named(name)
        self.batch_size = batch_size
        torch.manual_seed(job.plan.seed)
        segment = _segment(name, image_size, batch_size)
        self.model, self.optimizer = make_model(job, segment, self.entry)
        self._batches = SyntheticBatches(
            self.entry, batch_size, image_size, seed=job.plan.seed, rank=job.engine.identity.rank
        ).to(job.device)
        functional = torch.nn.functional
        self._loss = (
            functional.nll_loss if self.entry.log_probabilities else (functional.cross_entropy)
        )

    def block(self, num_steps: int) -> Block:
        """Train that many steps."""
        ends: list[tuple[float, float]] = []
        for _ in range(num_steps + 1):
            with collect.step(samples=self.batch_size):
                with collect.phase("data"):
                    images, labels = self._batches.next_batch()
                with collect.phase("forward"):
                    self.optimizer.zero_grad()
                    loss: Any = self._loss(self.model(images), labels)
                with collect.phase("backward"):
                    loss.backward()
                self.optimizer.step()
                collect.loss(loss)
            if len(ends) in (0, num_steps) and self.device != "cpu":
                # Steps are only launched by now; within the block nothing waits, as in trainings.
                torch.cuda.synchronize(self.device)
            ends.append((time.perf_counter(), time.process_time()))
        # The first step is longer: it makes what the others use.
        first, last = ends[0], ends[-1]
        return Block((last[0] - first[0]) / num_steps, (last[1] - first[1]) / num_steps)

    def recorded_block(self, num_steps: int) -> Block:
        """The same with the recorder on."""
        with self._recorder():
            return self.block(num_steps)

    @contextlib.contextmanager
    def _recorder(self) -> Iterator[None]:
        """The recorder on, with a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {RECORDER_DIR: folder, LIGHT: str(int(self.is_light))}
            collect.start(device=self.device)
            collect.watch(self.model, self.optimizer)
            try:
                yield
            finally:
                collect.stop()
                del os.environ[RECORDER_DIR], os.environ[LIGHT]

    def direct_cost_s(self, num_steps: int = 2000) -> float:
        """Time of the recorder's own code in one step: every call and hook, and nothing else."""
        loss = torch.zeros((), device=self.device)
        with self._recorder():
            call = self._calls_of_a_step(loss)
            call()
            begin_s = time.perf_counter()
            for _ in range(num_steps):
                call()
            return (time.perf_counter() - begin_s) / num_steps

    def _calls_of_a_step(self, loss: torch.Tensor) -> Callable[[], None]:
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        ready = [
            next(iter(parameter._post_accumulate_grad_hooks.values())) for parameter in parameters
        ]
        before = list(self.optimizer._optimizer_step_pre_hooks.values())
        after = list(self.optimizer._optimizer_step_post_hooks.values())

        def call() -> None:
            with collect.step(samples=self.batch_size):
                with collect.phase("data"):
                    pass
                with collect.phase("forward"):
                    pass
                with collect.phase("backward"):
                    for hook, parameter in zip(ready, parameters, strict=True):
                        hook(parameter)
                # DistributedOptimizer runs its hooks twice a step; twice is the upper bound.
                for hook in before + before:
                    hook(self.optimizer, (), {})
                for hook in after + after:
                    hook(self.optimizer, (), {})
                collect.loss(loss)

        return call


def measured_cost(
    training: Training, *, num_pairs: int, num_steps: int, has_direct: bool = True
) -> MeasuredCost:
    """Alternate blocks with and without the recorder, then time the recorder's own code.

    Args:
        training: What trains.
        num_pairs: Pairs of blocks.
        num_steps: Steps of a block.
        has_direct: Whether the hooks can be called alone; ``direct_s`` is NaN otherwise.
    """
    training.block(num_steps)
    blocks = [_pair(training, pair, num_steps) for pair in range(num_pairs)]
    return MeasuredCost(
        step_s=statistics.median(off.wall_s for _, off in blocks),
        direct_s=training.direct_cost_s() if has_direct else math.nan,
        wall=median_interval([on.wall_s / off.wall_s for on, off in blocks]),
        cpu=median_interval([on.cpu_s / off.cpu_s for on, off in blocks]),
    )


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median with its 95 % interval by order statistics (the sign test inverted)."""
    ordered = sorted(values)
    count = len(ordered)
    tail, rank = 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if tail > 0.025:
            break
        rank += 1
    low = max(rank - 1, 0)
    return ordered[low], statistics.median(ordered), ordered[count - 1 - low]


def _pair(training: Training, number: int, num_steps: int) -> tuple[Block, Block]:
    """A block with the recorder on and one with it off; which comes first alternates, too."""
    if number % 2:
        on = training.recorded_block(num_steps)
        return on, training.block(num_steps)
    off = training.block(num_steps)
    return training.recorded_block(num_steps), off


def plain_job(device: str = "cpu") -> Job:
    """One process on a device, without Horovod."""
    plan = cost_plan(1)
    return Job(plan, device, PlainTorch(plan))


def cost_plan(size: int) -> Plan:
    """A plan of that many ranks without segments: trainings are made one by one."""
    return Plan(
        schema_version=PLAN_SCHEMA_VERSION,
        pass_id="recorder-cost",
        mode="throughput",
        size=size,
        num_threads=1,
        pin_cores=False,
        device="cpu",
        data="synthetic",
        data_dir=None,
        seed=1,
        segments=[],
    )


def _segment(name: str, image_size: int, batch_size: int) -> Segment:
    return Segment(
        id=name,
        engine="horovod",
        model=name,
        compression="none",
        reduction="average",
        batch_size=batch_size,
        image_size=image_size,
        num_warmup_batches=0,
        num_steps=1,
        max_seconds=None,
        timeline=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the cost in this process and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m hvdprof.bench_models.recorder_cost", description=__doc__
    )
    parser.add_argument("--model", default="mnist")
    parser.add_argument("--image-size", type=int, default=28)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks, on and off")
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    job = plain_job(options.device)
    training = Training(job, options.model, options.image_size, options.batch_size)
    cost = measured_cost(training, num_pairs=options.pairs, num_steps=options.steps)
    sys.stdout.write(json.dumps(asdict(cost)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
