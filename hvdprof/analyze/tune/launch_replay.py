"""A measured launch replayed step after step with other settings of Horovod's loop.

Every rank repeats the own work that it recorded: when each gradient is ready after the end of its
previous step, when it blocks, and what it does behind its release. Horovod's loop reduces the
gradients as ``analyze.predict.horovod_loop`` describes it, and continues from step to step, so that
its phase against the steps is the one that they give each other.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.gradient_trace import Gradients, GradientTrace
from hvdprof.analyze.predict.horovod_loop import LoopSettings, random_phase, simulate_loop
from hvdprof.analyze.tune.collective_draws import CollectiveDraws
from hvdprof.model.arrays import Float64s

MOST_STEPS = 40
"""More steps make a replay longer, and hardly more certain."""

SMALLEST_SCALE, LARGEST_SCALE = 0.1, 3.0
BISECTIONS = 7

AGREES = 0.02
"""Where a replay misses less of the measured step time, it is left as it is."""


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

    def step_ns(self, settings: LoopSettings, gradients: Gradients | None = None) -> Float64s:
        """[draws] The mean step time of the job.

        Args:
            settings: Of the loop.
            gradients: What is sent; the launch's own where not given.
        """
        trace = self.trace
        sent = trace.gradients if gradients is None else gradients
        rng = np.random.default_rng(self.seed)
        end = np.zeros((len(self.draws.alpha_ns), len(trace.ranks)))
        cycle = None
        steps = range(min(len(trace.steps), MOST_STEPS))
        for step in steps:
            ready = self._ready(end, step)
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
            arrived = end + trace.arrived[step]
            end = np.maximum(arrived, done.end_ns[:, np.newaxis]) + trace.after[step]
        return np.asarray(end.max(axis=1) / len(steps))

    def calibrated(self, settings: LoopSettings) -> "LaunchReplay":
        """The same launch with communication scaled towards what explains its step time.

        What collectives cost comes from a launch with a timeline, whose writer takes a core.
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

    def _scaled(self, scale: float, settings: LoopSettings) -> float:
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
