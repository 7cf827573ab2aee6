"""The mean step at one number of ranks over draws, and what it is made of.

With the window of a rank as in ``own_work`` and the slowest rank as in ``rank_spread``:

    T = (window + slowest + exposed) * error + lost * error of losses, not below window * error
    exposed = max(0, simulated + (measured - simulated at the reference))

``simulated`` is the engine's loop, from the last rank's wait to its last collective. The difference
anchors it: copies and wake-ups that the loop does not hold cost the same at every size. Where less
was measured than simulated, all parts of the loop shrink alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Topology
from hvdprof.analyze.predict.costs.cost_draws import CostDraws, Pricing
from hvdprof.analyze.predict.costs.negotiation_draws import negotiation_ns
from hvdprof.analyze.predict.draws import NUM_STEPS, Draws
from hvdprof.analyze.predict.own_work import JobInputs, Reduction
from hvdprof.analyze.predict.rank_spread import Slowest, slowest_of
from hvdprof.model.arrays import Float64s
from hvdprof.model.causes import (
    BANDWIDTH,
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    LATENCY,
    MODEL_ERROR,
    NEGOTIATION,
    NOT_IN_MODEL,
    OUTSIDE_PHASES,
    STRAGGLER,
)

_LEAST_OVERLAP = 0.01
"""Overlap at the reference below which a compute slowdown is not communication's."""

_MOST_SLOWDOWN = 1.0

CauseKey = tuple[str, str]
"""Term and part, as in FORECAST_CAUSES."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted.

    ``batch`` is samples per rank and micro-batch divided by those of the reference, ``passes`` the
    micro-batches per step. ``reduction`` is that of the predicted settings. ``shared`` is the
    factor in ``batch`` from sharing the global batch (strong scaling): the baseline has all of it.
    """

    num_ranks: int
    ranks_per_host: int
    reduction: Reduction
    batch: float = 1.0
    passes: int = 1
    shared: float = 1.0

    @property
    def topology(self) -> Topology:
        """Where its ranks are."""
        return Topology(self.num_ranks, self.ranks_per_host)


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """The step of one target, [draws].

    ``samples`` counts samples per rank and step. ``causes`` sum to ``step_ns`` minus the step of
    the baseline for as many samples, which is ``reference_ns``.
    """

    target: Target
    samples: float
    step_ns: Float64s
    reference_ns: Float64s
    causes: dict[CauseKey, Float64s]

    @property
    def efficiency(self) -> Float64s:
        """Scaling efficiency against the baseline."""
        return np.asarray(self.reference_ns / self.step_ns)

    @property
    def samples_per_s(self) -> Float64s:
        """Throughput of all ranks."""
        return np.asarray(self.target.num_ranks * self.samples / self.step_ns * 1e9)


@dataclass(frozen=True, slots=True)
class _Exposed:
    """What the loop leaves exposed, by part, and how much of it overlaps with backward; [draws]."""

    bandwidth: Float64s
    latency: Float64s
    negotiation: Float64s
    overlapped: Float64s

    @property
    def total(self) -> Float64s:
        return np.asarray(self.bandwidth + self.latency + self.negotiation)

    def causes(self, rest: Float64s) -> dict[CauseKey, Float64s]:
        """Its parts; ``rest``, at least minus the total, is measured time beyond the loop."""
        share = 1 + np.minimum(rest, 0.0) / np.maximum(self.total, 1e-9)
        parts = {
            BANDWIDTH: self.bandwidth * share,
            LATENCY: self.latency * share,
            NEGOTIATION: self.negotiation * share,
            NOT_IN_MODEL: np.maximum(rest, 0.0),
        }
        return {(EXPOSED_TRANSFER, part): time for part, time in parts.items()}


class StepModel:
    """Predicts the steps of some targets of a job from draws.

    What two sets of draws have in common is computed once: sensitivities replace one group of
    draws at a time.

    Args:
        job: What is known of the job.
        targets: What to predict; all with as many ranks per host.
    """

    def __init__(self, job: JobInputs, targets: Sequence[Target]) -> None:
        self._job, self._targets = job, tuple(targets)
        self._reference = Target(job.num_ranks, job.ranks_per_host, job.reduction)
        self._slowest: dict[_Key, dict[int, Slowest]] = {}
        self._exposed: dict[_Key, _Exposed] = {}
        self._groups: list[object] = []

    def steps(self, draws: Draws) -> list[PredictedStep]:
        """The steps of all targets; a draw has the same ranks, links and errors in each."""
        scale = draws.own.reference_ns / self._job.own.reference.step_ns
        slowest = self._slowest_of(draws)
        at_reference = self._exposed_at(self._reference, draws, draws.links.measured, scale)
        rest = self._job.own.reference.exposed_ns * scale - at_reference.total
        anchor = _Anchor(rest * self._job.is_anchored, at_reference.overlapped)
        found = []
        for target in self._targets:
            stretch = scale * target.batch**draws.own.batch_exponent
            exposed = self._exposed_at(target, draws, draws.links.predicted, stretch)
            parts = _Parts(scale, slowest[target.num_ranks], exposed, anchor)
            found.append(_predicted(self._job, draws, target, parts))
        return found

    def _slowest_of(self, draws: Draws) -> dict[int, Slowest]:
        key = (id(draws.differences), id(draws.jitter))
        if key not in self._slowest:
            self._groups += [draws.differences, draws.jitter]
            sizes = [target.num_ranks for target in self._targets]
            self._slowest[key] = slowest_of(
                self._job.spread.jitter,
                draws.differences,
                draws.jitter,
                sizes,
                self._targets[0].ranks_per_host,
            )
        return self._slowest[key]

    def _exposed_at(
        self, target: Target, draws: Draws, costs: CostDraws, stretch: Float64s
    ) -> _Exposed:
        groups = [target, draws.own, draws.ready, costs, draws.negotiation]
        key = tuple(id(group) for group in groups)
        if key not in self._exposed:
            # Kept alive, so that no other object takes their identity.
            self._groups += groups
            self._exposed[key] = _exposed(self._job, draws, target, costs, stretch)
        return self._exposed[key]


_Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Anchor:
    """At the reference: measured minus simulated exposed time, and overlap; [draws]."""

    rest_ns: Float64s
    overlapped: Float64s


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a predicted step is made of; ``scale`` is the reference step over its mean."""

    scale: Float64s
    slowest: Slowest
    exposed: _Exposed
    anchor: _Anchor


def _exposed(
    job: JobInputs, draws: Draws, target: Target, costs: CostDraws, stretch: Float64s
) -> _Exposed:
    """The loop of the target's engine; ready times are stretched by a factor per draw."""
    num = len(stretch)
    offsets = job.offsets_ns[draws.ready.rows] * stretch[:, None, None]
    ready = offsets.reshape(num * NUM_STEPS, -1)
    pricing = Pricing(costs, target.topology, NUM_STEPS)
    negotiation = negotiation_ns(job.negotiates, draws.negotiation, costs, target.topology)
    # The phase of the loop is the same for all sizes of a draw: a larger job is then no luckier.
    rng = np.random.default_rng(draws.ready.seed)
    found = target.reduction.simulate(
        rng, ready, pricing.cost_ns, np.repeat(negotiation, NUM_STEPS)
    )
    late = np.maximum(found.end_ns, 0.0)
    parts = found.exposed
    whole = parts.cycle_ns + parts.negotiation_ns + parts.execution_ns
    counted = np.where(whole > 0, late / np.maximum(whole, 1e-9), 0.0)
    executed = parts.execution_ns * counted
    mean_size = found.size_bytes / np.maximum(found.num_executions, 1)
    latency = executed * pricing.latency_share(mean_size)

    def mean(rows: Float64s) -> Float64s:
        return np.asarray(rows.reshape(num, NUM_STEPS).mean(axis=1))

    return _Exposed(
        bandwidth=mean(executed - latency),
        latency=mean(latency),
        negotiation=mean(late - executed),
        overlapped=mean(np.maximum(found.parts.execution_ns - executed, 0.0)),
    )


def _predicted(job: JobInputs, draws: Draws, target: Target, parts: _Parts) -> PredictedStep:
    own, passes = job.own.reference, target.passes
    scale, slowest, exposed, anchor = parts.scale, parts.slowest, parts.exposed, parts.anchor
    grown = target.batch**draws.own.batch_exponent
    data = own.data_ns * scale * target.batch * passes
    once = own.compute_ns * scale * grown
    compute = once * passes + own.update_ns * scale
    compute = compute + once * _slowdown(job, draws, once, parts)
    outside = own.outside_ns * scale
    window = data + compute + outside
    measured_window = own.window_ns * scale
    unit = measured_window * (window / measured_window) ** draws.own.jitter_exponent
    lasting, jitter = slowest.lasting * unit, (slowest.total - slowest.lasting) * unit
    if target.num_ranks == 1:
        lasting, jitter, exposed = lasting * 0.0, jitter * 0.0, _NOTHING
    # What the loop does not hold cannot make the wait shorter than none.
    rest = np.maximum(anchor.rest_ns, -exposed.total) * (target.num_ranks > 1)
    lost = lasting + jitter + exposed.total + rest
    of_step, of_loss = draws.model.logs(target.num_ranks / job.num_ranks)
    modelled = window + lost
    # All that is lost may disappear, not more: the step keeps its own work.
    less = np.maximum(np.expm1(of_loss), -np.exp(of_step))
    error = modelled * np.expm1(of_step) + np.maximum(lost, 0.0) * less
    base = _baseline(job, draws, target)
    causes = {
        **exposed.causes(rest),
        (STRAGGLER, ""): lasting,
        (JITTER, ""): jitter,
        (COMPUTE_INFLATION, ""): compute - base.compute,
        (INPUT_BOUND, ""): data - base.data,
        (OUTSIDE_PHASES, ""): outside - base.outside,
        (MODEL_ERROR, ""): error,
        (BASELINE_CREDIT, ""): -base.waits,
    }
    return PredictedStep(
        target,
        own.batch_size * target.batch * passes,
        modelled + error,
        base.data + base.compute + base.outside + base.waits,
        causes,
    )


_NOTHING = _Exposed(*(np.zeros(1) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class _Baseline:
    """The step of the baseline for as many samples, [draws]; ``compute`` with the update."""

    data: Float64s
    compute: Float64s
    outside: Float64s
    waits: Float64s


def _baseline(job: JobInputs, draws: Draws, target: Target) -> _Baseline:
    """The baseline with the predicted batch and micro-batches.

    Its steps are as those of the target: one update per step, and compute with the batch's
    exponent. Samples beyond (strong scaling, or another measured batch) are further steps.
    """
    parts, batch = job.own.baseline, target.batch / target.shared
    steps = job.own.reference.batch_size / parts.batch_size * target.shared
    level = steps * draws.own.baseline_ns / parts.step_ns
    grown = batch**draws.own.batch_exponent * target.passes
    return _Baseline(
        data=parts.data_ns * level * batch * target.passes,
        compute=level * (parts.compute_ns * grown + parts.update_ns),
        outside=parts.outside_ns * level,
        waits=(parts.step_ns - parts.window_ns) * level,
    )


def _slowdown(job: JobInputs, draws: Draws, compute: Float64s, parts: _Parts) -> Float64s:
    """[draws] Additional compute, relative, for the overlap with communication beyond measured."""
    measured = parts.anchor.overlapped / (job.own.reference.compute_ns * parts.scale)
    predicted = np.minimum(parts.exposed.overlapped / np.maximum(compute, 1.0), 1.0)
    per_overlap = (
        draws.contention.share * max(job.own.slowdown, 0.0) / np.maximum(measured, _LEAST_OVERLAP)
    )
    return np.asarray(np.clip(per_overlap, 0.0, _MOST_SLOWDOWN) * (predicted - measured))
