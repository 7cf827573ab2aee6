"""What a forecast needs of a job, and what a rank spends on itself at every number of ranks.

The step of the reference cell, the largest measured one that is not oversubscribed, splits exactly:

    T = window + slowest + exposed
    window = data + compute + outside

``window`` is the mean of the ranks' own time between two releases, ``slowest`` how much later the
last rank arrives than the mean, and ``exposed`` the rest: the wait after the last arrival. The
window does not depend on N but for what communication takes from the cores that compute (compute
slowdown). How much of the measured slowdown that is, against one rank, is not known, so it is a
draw; what ranks on the same host cost each other without communication stays as measured. Named
stragglers are no part of the mean: ``rank_spread`` adds how much later they are than the others.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hvdprof.analyze.predict.costs.cost_draws import CostDraws
from hvdprof.analyze.predict.costs.ddp_buckets import CostNs, StepCommunication, simulate_ddp
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.horovod_loop import LoopSettings, random_phase, simulate_loop
from hvdprof.analyze.predict.rank_spread import RankSpread, own_times_of, ranks_on_time
from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import CellTime
from hvdprof.analyze.steps.measured_launches import Facts, LaunchFacts
from hvdprof.analyze.steps.step_work import OWN_PARTS, StepWork
from hvdprof.model.arrays import Float64s, Int64s
from hvdprof.model.cell_key import LaunchKey

UNREPEATED_ERROR, UNREPEATED_DEGREES = 0.02, 3.0
"""Error of a step time, and its degrees of freedom, where no launch was repeated."""

_FARTHEST, _MOST_LOG = 0.99, math.log(3)
"""Draws of step times stay within this quantile and this factor. The exponential of Student's t has
no mean, so that a few draws of one degree of freedom would decide every mean."""

LEAST_BATCH_EXPONENT = 0.85
"""Compute grows with the batch to the power of this up to 1: small batches use a GPU less well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The mean step of a cell, ns; ``batch_size`` in samples per rank and step.

    ``compute_ns`` is forward and backward, ``update_ns`` the optimizer, ``outside_ns`` what is in
    no phase. What a step holds beyond these and ``exposed_ns`` is the wait for the slowest rank.
    """

    batch_size: float
    step_ns: float
    data_ns: float
    compute_ns: float
    update_ns: float
    outside_ns: float
    exposed_ns: float = 0.0

    @property
    def window_ns(self) -> float:
        """Own time of the mean rank."""
        return self.data_ns + self.compute_ns + self.update_ns + self.outside_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWork:
    """The step of the reference cell and that of the baseline.

    Attributes:
        reference: The largest measured cell.
        baseline: What efficiencies refer to.
        log_step: Logarithm of the step time of the baseline, ns, with its error.
        log_ratio: Logarithm of the step time of the reference divided by that of the baseline.
        slowdown: Compute of the reference for as many samples, divided by that of one rank,
            minus 1; 0 where one rank was not measured.
    """

    reference: StepParts
    baseline: StepParts
    log_step: LogEstimate
    log_ratio: LogEstimate
    slowdown: float


@dataclass(frozen=True, slots=True)
class OwnDraws:
    """[draws] Step times of baseline and reference, ns, and how compute and jitter scale.

    Compute grows with the batch to the power of ``batch_exponent``, and jitter with the window to
    the power of ``jitter_exponent``: 0 where it comes from the system, 1 where from the work.
    """

    baseline_ns: Float64s
    reference_ns: Float64s
    batch_exponent: Float64s
    jitter_exponent: Float64s


def own_work(
    reference: CellTime,
    baseline: CellTime,
    log_ratio: LogEstimate,
    facts: Facts,
    works: Mapping[LaunchKey, StepWork],
    late: Collection[int] = (),
) -> OwnWork | None:
    """Own work of a cell and its baseline; None where the ranks of the cell were not recorded.

    Args:
        reference: The cell that is extrapolated.
        baseline: That of the efficiencies; may be the same.
        log_ratio: Logarithm of the step time of the reference divided by that of the baseline.
        facts: The parts of the step of each launch.
        works: The steps of each launch.
        late: Named stragglers of the cell.
    """
    known = [key for key in reference.launches if key in works]
    shares = [_coupled_shares(works[key], late) for key in known]
    if not shares:
        return None
    window, exposed = (float(share) for share in np.mean(shares, axis=0))
    base = _parts(baseline, facts, baseline.launches)
    on_time = {key: _on_time(facts[key], works[key], late) for key in known}
    found = _parts(reference, on_time, known, window=window, exposed=exposed)
    slowdown = 0.0
    if baseline.cell.np == 1 and reference.cell.np > 1:
        samples = found.batch_size / base.batch_size
        slowdown = found.compute_ns / (base.compute_ns * samples) - 1
    return OwnWork(
        reference=found,
        baseline=base,
        log_step=baseline.log_step_time,
        log_ratio=log_ratio,
        slowdown=slowdown,
    )


def draw_own_work(own: OwnWork, rng: np.random.Generator, num_draws: int) -> OwnDraws:
    """Step times by Student's t on their logarithms."""
    baseline = np.exp(_draws(own.log_step, rng, num_draws))
    ratio = np.exp(_draws(own.log_ratio, rng, num_draws))
    return OwnDraws(
        baseline,
        baseline * ratio,
        rng.uniform(LEAST_BATCH_EXPONENT, 1.0, num_draws),
        rng.random(num_draws),
    )


def _draws(estimate: LogEstimate, rng: np.random.Generator, num_draws: int) -> Float64s:
    error, degrees = estimate.error, estimate.degrees
    if math.isnan(error) or not degrees >= 1:
        error, degrees = UNREPEATED_ERROR, UNREPEATED_DEGREES
    reach = min(error * student_quantile(degrees, _FARTHEST), _MOST_LOG)
    drawn = error * rng.standard_t(degrees, num_draws)
    return np.asarray(estimate.value + np.clip(drawn, -reach, reach))


def _coupled_shares(work: StepWork, late: Collection[int]) -> tuple[float, float]:
    """Mean window of the ranks on time and exposed time as shares of the mean step."""
    windows = own_times_of(work)
    if not len(windows):
        return 1.0, 0.0
    step = float(work.step_times.mean())
    window = float(windows[:, ranks_on_time(work, late)].mean())
    return window / step, 1.0 - float(windows.max(axis=1).mean()) / step


def _on_time(facts: LaunchFacts, work: StepWork, late: Collection[int]) -> LaunchFacts:
    """The facts of a launch with the phases of the ranks on time."""
    ranks = ranks_on_time(work, late)
    parts = dict(facts.parts_ns)
    for part in OWN_PARTS:
        mean = float(work.parts[part].mean())
        if mean > 0:
            parts[part] *= float(work.parts[part][:, ranks].mean()) / mean
    return replace(facts, parts_ns=parts)


def _parts(
    time: CellTime,
    facts: Facts,
    launches: Sequence[LaunchKey],
    *,
    window: float | None = None,
    exposed: float = 0.0,
) -> StepParts:
    step_ns = math.exp(time.log_step_time.value)

    def mean(of: str) -> float:
        shares = [
            facts[key].parts_ns[of] / float(facts[key].step_times_ns.mean()) for key in launches
        ]
        return float(np.nan_to_num(np.mean(shares))) * step_ns

    data, update = mean("data"), mean("optimizer")
    compute = mean("forward") + mean("backward")
    # A baseline has no other rank to wait for; its waits are what it loses itself.
    outside = mean("before_update") + mean("outside")
    whole = data + update + compute + outside if window is None else window * step_ns
    return StepParts(
        batch_size=float(np.mean([facts[key].samples for key in launches])),
        step_ns=step_ns,
        data_ns=data,
        compute_ns=compute,
        update_ns=update,
        outside_ns=whole - data - compute - update,
        exposed_ns=exposed * step_ns,
    )


@dataclass(frozen=True, slots=True)
class Reduction:
    """What reduces the gradients of a step.

    Attributes:
        gradients: As they are sent, in the order of their ready times.
        loop: Horovod's loop.
        buckets: Of DDP, by places of gradients; None under Horovod.
    """

    gradients: Gradients
    loop: LoopSettings = field(default_factory=LoopSettings)
    buckets: tuple[Int64s, ...] | None = None

    def simulate(
        self,
        rng: np.random.Generator,
        ready_ns: Float64s,
        cost_ns: CostNs,
        negotiation_ns: Float64s,
    ) -> StepCommunication:
        """The communication of one step per row.

        Args:
            rng: Source of the phase of Horovod's loop.
            ready_ns: [rows, gradients]
            cost_ns: Time of collectives.
            negotiation_ns: [rows] Time of one negotiation.
        """
        sent = self.gradients.size_bytes
        if self.buckets is not None:
            return simulate_ddp(ready_ns, sent, self.buckets, cost_ns=cost_ns)
        settings = replace(self.loop, negotiation_ns=negotiation_ns)
        return simulate_loop(
            ready_ns,
            sent,
            settings,
            cost_ns=cost_ns,
            cycle_start_ns=random_phase(rng, ready_ns, settings),
            dtype_codes=self.gradients.dtype_codes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInputs:
    """A job of which other numbers of ranks are predicted.

    Attributes:
        num_ranks: Ranks of the reference cell.
        ranks_per_host: Of its fullest host.
        own: Own work of the reference cell and of the baseline.
        spread: How much the ranks differ.
        reduction: How the gradients are reduced, as measured.
        offsets_ns: [steps, gradients] When the last rank has each gradient ready, minus the time
            at which the last rank waits for all of them: at most 0. Rows are recorded steps.
        costs: Time of collectives on the links of the run.
        negotiates: How the ranks agree on what is ready.
        is_anchored: Whether the exposed time of the reference was measured: the difference to the
            model is then kept at all sizes.
        step_factor: Of a stated job, the baseline's step time lies within the stated one divided
            and multiplied by it, uniform in the logarithm.
    """

    num_ranks: int
    ranks_per_host: int
    own: OwnWork
    spread: RankSpread
    reduction: Reduction
    offsets_ns: Float64s
    costs: CostDraws
    negotiates: Negotiates = Negotiates.BY_MPI_CACHE
    is_anchored: bool = True
    step_factor: float = 1.0
