"""A measured launch replayed step after step with other settings of Horovod or of DDP.

Every rank repeats the own work that it recorded: when each gradient is ready after the end of its
previous step, when it blocks, and what it does behind its release. Horovod's loop reduces the
gradients as ``analyze.predict.horovod_loop`` describes it, and continues from step to step, so that
its phase against the steps is the one that they give each other. DDP reduces them by buckets as
``analyze.predict.ddp_buckets`` describes it, anew in each step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.analyze.predict.costs.ddp_buckets import bucket_limits, ddp_buckets, simulate_ddp
from hvdprof.analyze.predict.costs.gradient_trace import Gradients, GradientTrace
from hvdprof.analyze.predict.horovod_loop import LoopSettings, random_phase, simulate_loop
from hvdprof.analyze.tune.collective_draws import LEAST_EXECUTIONS, CollectiveDraws, draws_of_times
from hvdprof.analyze.tune.ddp_rules import given_cap
from hvdprof.analyze.tune.proposal import Untried
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.arrays import Float64s, Int64s
from hvdprof.model.tables.run_tables import GRADIENTS

MOST_STEPS = 40
"""More steps make a replay longer, and hardly more certain."""

SMALLEST_SCALE, LARGEST_SCALE = 0.1, 3.0
BISECTIONS = 7

AGREES = 0.02
"""Where a replay misses less of the measured step time, it is left as it is."""


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """The buckets of DDP.

    Attributes:
        cap_mb: Their size in MiB as the script gives it; None for DDP's own.
        order: Names of the gradients in the order in which they fill buckets; that of their ready
            times where empty.
    """

    cap_mb: float | None = None
    order: tuple[str, ...] = ()

    def places(self, gradients: Gradients) -> tuple[Int64s, ...]:
        """The places of the gradients of each bucket.

        Args:
            gradients: In the order of their ready times.
        """
        place = {name: number for number, name in enumerate(gradients.names)}
        filled = [place[name] for name in self.order] if self.order else range(len(place))
        order = np.array(filled, dtype=np.int64)
        found = ddp_buckets(
            gradients.size_bytes[order], bucket_limits(self.cap_mb), gradients.dtype_codes[order]
        )
        return tuple(order[bucket] for bucket in found)


Settings = LoopSettings | BucketSettings
"""Of what reduces the gradients."""


@dataclass(frozen=True, slots=True)
class LaunchReplay:
    """A launch, and what its collectives cost.

    Attributes:
        trace: Its steady steps.
        draws: What collectives and negotiations cost, one value per draw.
        seed: Of what differs between steps; the same in all replays, so that two of them differ
            by their settings alone.
    """

    trace: GradientTrace
    draws: CollectiveDraws
    seed: int

    def step_ns(self, settings: Settings, gradients: Gradients | None = None) -> Float64s:
        """[draws] The mean step time of the job.

        Args:
            settings: Of Horovod's loop or of DDP's buckets.
            gradients: What is sent; the launch's own where not given.
        """
        trace = self.trace
        sent = trace.gradients if gradients is None else gradients
        rng = np.random.default_rng(self.seed)
        if isinstance(settings, BucketSettings):
            reduced = self._by_buckets(settings, sent, rng)
        else:
            reduced = self._by_loop(settings, sent, rng)
        end = np.zeros((len(self.draws.alpha_ns), len(trace.ranks)))
        steps = range(min(len(trace.steps), MOST_STEPS))
        for step in steps:
            done_ns = reduced(self._ready(end, step))
            arrived = end + trace.arrived[step]
            end = np.maximum(arrived, done_ns[:, np.newaxis]) + trace.after[step]
        return np.asarray(end.max(axis=1) / len(steps))

    def _by_loop(
        self, settings: LoopSettings, sent: Gradients, rng: np.random.Generator
    ) -> Callable[[Float64s], Float64s]:
        """From ready times to the end of a step's last collective, step after step."""
        cycle: Float64s | None = None

        def reduced(ready: Float64s) -> Float64s:
            nonlocal cycle
            loop = self.draws.in_a_step(settings, rng)
            if cycle is None:
                cycle = random_phase(rng, ready, loop)
            done = simulate_loop(
                ready,
                sent.size_bytes,
                loop,
                cost_ns=lambda size: self.draws.cost_ns(size, rng),
                cycle_start_ns=cycle,
                dtype_codes=sent.dtype_codes,
            )
            cycle = done.last_cycle_ns
            return done.end_ns

        return reduced

    def _by_buckets(
        self, settings: BucketSettings, sent: Gradients, rng: np.random.Generator
    ) -> Callable[[Float64s], Float64s]:
        """As ``_by_loop`` for DDP, whose steps are independent of each other."""
        places = settings.places(sent)

        def reduced(ready: Float64s) -> Float64s:
            done = simulate_ddp(
                ready,
                sent.size_bytes,
                places,
                cost_ns=lambda size: self.draws.cost_ns(size, rng),
            )
            return done.end_ns

        return reduced

    def calibrated(self, settings: Settings) -> "LaunchReplay":
        """The same launch with communication scaled towards what explains its step time.

        What collectives cost comes from a launch with a timeline, whose writer takes a core, or
        under DDP from collectives before the training.
        A factor that makes the replay agree with this launch is found by bisection; every draw uses
        a power of it between 0 and 1, because other causes may explain the difference. Where no
        factor does, communication stays as it was measured.

        Args:
            settings: Those that the launch had.
        """
        if abs(self._scaled(1.0, settings) / self.measured_ns - 1) < AGREES:
            return self
        low, high = SMALLEST_SCALE, LARGEST_SCALE
        if not self._scaled(low, settings) <= self.measured_ns <= self._scaled(high, settings):
            return self
        for _ in range(BISECTIONS):
            middle = math.sqrt(low * high)
            if self._scaled(middle, settings) < self.measured_ns:
                low = middle
            else:
                high = middle
        powers = np.random.default_rng(self.seed).random(len(self.draws.alpha_ns))
        return replace(self, draws=replace(self.draws, scale=math.sqrt(low * high) ** powers))

    def _scaled(self, scale: float, settings: Settings) -> float:
        scaled = replace(self, draws=replace(self.draws, scale=scale))
        return float(scaled.step_ns(settings).mean())

    def without_communication_ns(self) -> float:
        """The mean step time if no rank waited for gradients or for another rank."""
        own = (self.trace.arrived + self.trace.after)[:MOST_STEPS]
        return float(own.mean(axis=0).max())

    @property
    def measured_ns(self) -> float:
        """The mean step time of the replayed steps as they were measured."""
        return float(self.trace.step_times[:MOST_STEPS].mean())

    def _ready(self, end: Float64s, step: int) -> Float64s:
        """[draws, gradients] When the last rank has each gradient ready."""
        trace = self.trace
        own = trace.backward_begin[step] + trace.ready[step]
        ready = end[:, :1] + own[:, 0]
        for rank in range(1, len(trace.ranks)):
            ready = np.maximum(ready, end[:, rank : rank + 1] + own[:, rank])
        return np.asarray(ready)


def present_buckets(job: TunedJob) -> BucketSettings | str:
    """The buckets of the present setting, or why they are unknown."""
    given = given_cap(job)
    if isinstance(given, Untried):
        return given.reason
    gradients = _gradients(job)
    compressed = gradients["sent_bytes"] != gradients["size_bytes"]
    if compressed.any():
        return "A communication hook changes what is sent, and the replay knows no cost of it."
    facts = job.evidence.run.ddp
    if facts is None or not facts.find_unused_parameters or facts.static_graph:
        return BucketSettings(given[0])
    # With a search for unused parameters DDP keeps the order in which they were registered.
    return BucketSettings(given[0], tuple(gradients["tensor"].astype(str))[::-1])


def bucket_draws(job: TunedJob, num_draws: int, rng: np.random.Generator) -> CollectiveDraws | str:
    """The costs of allreduces between the ranks of a job, or why they are unknown.

    Those of a script were measured before its training, by the launch with a trace. Reference
    models record their buckets.

    Args:
        job: The job.
        num_draws: The number of draws.
        rng: Source of randomness.
    """
    facts = job.evidence.run.ddp
    if facts is not None and len(facts.allreduces) >= LEAST_EXECUTIONS:
        sizes, times = np.asarray(facts.allreduces, dtype=np.float64).T
        return draws_of_times(sizes, times, num_draws, rng)
    known = job.collectives[job.collectives["size_bytes"].notna()]
    if len(known) >= LEAST_EXECUTIONS:
        sizes = known["size_bytes"].to_numpy(dtype=np.float64)
        return draws_of_times(sizes, _service_times(known), num_draws, rng)
    return "no launch with a trace measured an allreduce of its ranks"


def _service_times(collectives: pd.DataFrame) -> Float64s:
    """The time of each bucket without its wait for the buckets before it, ns; at least 1.

    Buckets are in progress together, while the links carry one after the other.
    """
    ordered = collectives.sort_values("start_ns", kind="stable")
    end = ordered["start_ns"] + ordered["dur_ns"].astype("int64")
    keys = [ordered[name] for name in ("pass_id", "segment", "step")]
    before = end.groupby(keys, observed=True).transform(lambda ends: ends.cummax().shift())
    began = np.fmax(ordered["start_ns"].to_numpy(np.float64), before.to_numpy(np.float64))
    times = pd.Series(np.maximum(end.to_numpy(np.float64) - began, 1.0), index=ordered.index)
    return np.asarray(times.loc[collectives.index], dtype=np.float64)


def _gradients(job: TunedJob) -> pd.DataFrame:
    """GRADIENTS of the first of its launches that has any, in the order of the model."""
    table = job.evidence.table(GRADIENTS.name)
    for pass_id, segment in job.launches:
        own = (table["pass_id"] == pass_id) & (table["segment"] == segment)
        if own.any():
            return table[own]
    return table.iloc[:0]
