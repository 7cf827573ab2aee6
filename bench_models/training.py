"""The one training loop: a segment of the plan, with any engine."""

import gc
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hvdprof import collect
from hvdprof.bench_models.digit_data import (
    DigitBatches,
    SyntheticBatches,
    bundled_digits,
    idx_digits,
)
from hvdprof.bench_models.engine import Engine
from hvdprof.bench_models.registry import BenchModel, model_named
from hvdprof.collect.turn_gate import SETTLING_STEPS, TurnGate
from hvdprof.errors import UsageError
from hvdprof.rundir.plan import DATA_PARALLEL_ENGINE, Plan, Segment

MIN_STEPS = 10


class Batches(Protocol):
    """An endless supply of batches of one size for one rank."""

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Images (n, channels, edge, edge) and labels (n), on the device of the model."""


@dataclass(frozen=True, slots=True)
class Job:
    """The ranks that train together, connected by ``engine``, and the device of this one.

    ``gate`` is that of a launch that takes turns with others.
    """

    plan: Plan
    device: str
    engine: Engine
    gate: TurnGate | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured of a segment: the number of steps and their mean length."""

    num_steps: int
    mean_step_ns: float


def run_segment(job: Job, segment: Segment, timeline_path: Path) -> Outcome:
    """Train one segment and release everything it made.

    Raises:
        HvdprofError: The segment names something unknown, or its data cannot be read.
    """
    try:
        with collect.segment(segment.id):
            return _train(job, segment, timeline_path)
    finally:
        # Hooks and autograd nodes refer to each other; what is left would slow the next segment.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _train(job: Job, segment: Segment, timeline_path: Path) -> Outcome:
    entry = model_named(segment.model)
    torch.manual_seed(job.plan.seed)
    model, optimizer = make_model(job, segment, entry)
    collect.watch(model, optimizer)
    loop = _Loop(job, segment, entry, model, optimizer)

    warmup_s = loop.warm_up()
    if job.gate is not None:
        return loop.in_turns(job.gate, warmup_s)
    num_steps = agreed_steps(job, segment, warmup_s)
    job.engine.wait_for_all()
    with job.engine.timeline(segment, timeline_path):
        length_ns = loop.measure(num_steps)
    return Outcome(num_steps, length_ns / num_steps)


def make_model(job: Job, segment: Segment, entry: BenchModel) -> tuple[nn.Module, Optimizer]:
    """Model and optimizer: SGD with the model's momentum and the scaled learning rate.

    Either of them is wrapped by the engine. Parameters and optimizer state are those of rank 0 on
    all ranks afterwards.
    """
    model = entry.build().to(job.device)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=entry.learning_rate * job.engine.learning_rate_scale(segment),
        momentum=entry.momentum,
    )
    return job.engine.wrap(segment, model, optimizer)


def agreed_steps(job: Job, segment: Segment, warmup_s: float) -> int:
    """The number of measured steps, the same on all ranks.

    As many as fit into ``max_seconds`` at the warm-up step of the slowest rank, at least
    ``MIN_STEPS``, at most ``num_steps``.

    Raises:
        UsageError: The segment bounds neither.
    """
    if segment.max_seconds is None:
        if segment.num_steps is None:
            raise UsageError(f"Segment {segment.id} has neither num_steps nor max_seconds.")
        return segment.num_steps
    slowest_s = job.engine.slowest(warmup_s)
    wanted = max(MIN_STEPS, math.ceil(segment.max_seconds / max(slowest_s, 1e-9)))
    return wanted if segment.num_steps is None else min(wanted, segment.num_steps)


def make_batches(job: Job, segment: Segment, entry: BenchModel) -> Batches:
    """The batches that the plan asks for.

    Raises:
        HvdprofError: The plan's data is unknown or cannot be read.
    """
    plan, place = job.plan, job.engine.identity
    # One process has the samples of all its replicas.
    num_replicas = place.size if segment.engine == DATA_PARALLEL_ENGINE else 1
    batch_size = segment.batch_size * num_replicas
    if plan.data == "synthetic":
        return SyntheticBatches(
            entry, batch_size, segment.image_size, seed=plan.seed, rank=place.rank
        ).to(job.device)
    if plan.data == "digits":
        digits = bundled_digits()
    elif plan.data == "idx" and plan.data_dir is not None:
        digits = idx_digits(Path(plan.data_dir))
    else:
        raise UsageError(f"The plan asks for unknown data {plan.data!r}.")
    batches = DigitBatches(digits, entry, batch_size, segment.image_size, job.device)
    return batches.for_rank(place.rank, place.size // num_replicas, plan.seed)


class _Loop:
    """The steps of a segment, each recorded with its phases."""

    def __init__(
        self, job: Job, segment: Segment, entry: BenchModel, model: nn.Module, optimizer: Optimizer
    ) -> None:
        self._job = job
        self._segment = segment
        self._model = model
        self._optimizer = optimizer
        self._loss = F.nll_loss if entry.log_probabilities else F.cross_entropy
        self._batches = make_batches(job, segment, entry)
        self._num_trained = 0

    def warm_up(self) -> float:
        """Train the warm-up batches; the median length of their later half in s, NaN if none.

        The first steps of a launch are the slowest: their length would make the measured steps
        too few.
        """
        # A time limit becomes a number of steps by what warm-up shows, so there must be one.
        needed = 0 if self._segment.max_seconds is None else 1
        durations_s = []
        begin_s = time.perf_counter()
        for _ in self.steps(max(self._segment.num_warmup_batches, needed), warmup=True):
            _wait_for_device(self._job)
            end_s = time.perf_counter()
            durations_s.append(end_s - begin_s)
            begin_s = end_s
        later_half = durations_s[len(durations_s) // 2 :]
        return statistics.median(later_half) if later_half else math.nan

    def in_turns(self, gate: TurnGate, warmup_s: float) -> Outcome:
        """Train whenever it is the turn of this launch, until it has no further one."""
        num_steps, length_ns, step_s = 0, 0, warmup_s
        while count := gate.next_turn(self._segment.id, self._num_trained, step_s):
            for _ in self.steps(SETTLING_STEPS, warmup=True):
                _wait_for_device(self._job)
            turn_ns = self.measure(count)
            step_s = turn_ns / count / 1e9
            num_steps, length_ns = num_steps + count, length_ns + turn_ns
        return Outcome(num_steps, length_ns / num_steps if num_steps else math.nan)

    def measure(self, count: int) -> int:
        """Train that many steps that count; their length in ns."""
        begin_ns = time.monotonic_ns()
        for _ in self.steps(count, warmup=False):
            pass
        _wait_for_device(self._job)
        return time.monotonic_ns() - begin_ns

    def steps(self, count: int, *, warmup: bool) -> Iterator[None]:
        """Train that many steps, yielding after each."""
        model, optimizer, batches = self._model, self._optimizer, self._batches
        model.train()
        for _ in range(count):
            with collect.step(samples=self._segment.batch_size, warmup=warmup):
                with collect.phase("data"):
                    images, labels = batches.next_batch()
                with collect.phase("forward"):
                    optimizer.zero_grad()
                    loss: Any = self._loss(model(images), labels)
                with collect.phase("backward"):
                    loss.backward()
                optimizer.step()
                collect.loss(loss)
            self._num_trained += 1
            yield


def _wait_for_device(job: Job) -> None:
    if job.device != "cpu":
        torch.cuda.synchronize()
