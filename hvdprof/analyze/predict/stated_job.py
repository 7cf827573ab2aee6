"""A job of which no run exists: its gradients, its throughput on one rank, and priors.

What a run would measure is drawn from ranges instead. The ranges are the same for every model and
were set before any result was looked at; docs/explain/prediction.md gives the reason of each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hvdprof import units
from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Link
from hvdprof.analyze.predict.costs.cost_draws import RULES, CostDraws, Rule, always
from hvdprof.analyze.predict.costs.gradient_trace import Gradients, assumed_ready
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.predict.jitter import normal_jitter
from hvdprof.analyze.predict.job_forecast import JobFacts
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.own_work import JobInputs, OwnWork, Reduction, StepParts
from hvdprof.analyze.predict.rank_spread import RankSpread, Variance
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.model.arrays import Float64s
from hvdprof.model.results.forecast import STATED_BASELINE, Missing

Range = tuple[float, float]

BACKWARD_SHARE = 2 / 3
"""Of forward and backward: the gradients by weights and by inputs cost as much as forward each."""

_CERTAIN = 1e6
_NUM_PRIOR_DRAWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Ranges of what a run would have measured; draws are uniform.

    ``jitter`` is the standard deviation of a rank from step to step, a share of the step.
    ``intra_latency_ns`` and ``intra_bytes_per_ns`` are of one hop inside a host, where no such link
    is stated.
    """

    jitter: Range = (0.003, 0.02)
    intra_latency_ns: Range = (2_000.0, 8_000.0)
    intra_bytes_per_ns: Range = (6.0, 12.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedJob:
    """What is known of a job that was never run.

    Attributes:
        gradients: In the order of backward.
        costs: What backward spends before each, in any unit.
        samples_per_s: Throughput of one rank alone: the ends of a range, uniform in the logarithm.
        batch_size: Samples per rank and step.
        ranks_per_host: Ranks on a full host.
        cycle_ns: Horovod's cycle time.
        fusion_bytes: Horovod's fusion threshold, rounded as Horovod does.
        is_cached: Whether the response cache is on: since Horovod 0.16.
        on_gpu: Whether collectives run on a stream of a GPU, beside Horovod's loop.
        algorithm: Of the collectives; a ring where it is None.
        priors: Ranges of everything else.
    """

    gradients: Gradients
    costs: Sequence[float]
    samples_per_s: Range
    batch_size: int
    ranks_per_host: int = 1
    cycle_ns: float = LoopSettings().cycle_ns
    fusion_bytes: int = LoopSettings().fusion_bytes
    is_cached: bool = True
    on_gpu: bool = True
    algorithm: Algorithm | None = None
    priors: Priors = field(default_factory=Priors)

    @property
    def step_ns(self) -> float:
        """The step of one rank alone, at the middle of the range of throughputs (geometric)."""
        low, high = self.samples_per_s
        return self.batch_size / math.sqrt(low * high) * 1e9


def stated_inputs(job: StatedJob, seed: int) -> JobInputs:
    """The inputs of a forecast.

    The same seed gives the same draws of everything that does not depend on the model, so that
    several models can be predicted for one unknown machine.

    Args:
        job: What is known.
        seed: Of the draws of the priors.
    """
    rng = np.random.default_rng(seed)
    priors, num = job.priors, _NUM_PRIOR_DRAWS

    def uniform(ends: Range) -> Float64s:
        return rng.uniform(*ends, num)

    step_ns = job.step_ns
    parts = StepParts(
        batch_size=float(job.batch_size),
        step_ns=step_ns,
        data_ns=0.0,
        compute_ns=step_ns,
        update_ns=0.0,
        outside_ns=0.0,
    )
    low, high = job.samples_per_s
    backward_ns = BACKWARD_SHARE * step_ns
    offsets = assumed_ready(job.costs, backward_ns) - backward_ns
    # A stated network between hosts takes the place of this one in every scenario.
    unused = Link(np.zeros(num), np.zeros(num))
    return JobInputs(
        num_ranks=1,
        ranks_per_host=job.ranks_per_host,
        own=OwnWork(
            reference=parts,
            baseline=parts,
            log_step=LogEstimate(math.log(step_ns), 0.0, _CERTAIN),
            log_ratio=LogEstimate(0.0, 0.0, _CERTAIN),
            slowdown=0.0,
        ),
        spread=RankSpread(
            normal_jitter([float(value) for value in rng.uniform(*priors.jitter, 100)]),
            Variance(0.0, 0.0),
        ),
        reduction=Reduction(
            job.gradients,
            LoopSettings(job.cycle_ns, job.fusion_bytes, num_streams=1 if job.on_gpu else 0),
        ),
        offsets_ns=offsets[np.newaxis],
        costs=CostDraws(
            rules=(_rule(job.algorithm),),
            rule_of_draw=np.zeros(num, dtype=np.int64),
            intra=Link(uniform(priors.intra_latency_ns), 1 / uniform(priors.intra_bytes_per_ns)),
            inter=unused,
            overhead_ns=np.zeros(num),
            log_residuals=np.empty(0),
            residual_costs_ns=np.empty(0),
        ),
        negotiates=Negotiates.BY_MPI_CACHE if job.is_cached else Negotiates.BY_GATHER,
        is_anchored=False,
        step_factor=math.sqrt(high / low),
    )


def stated_facts(job: StatedJob, name: str) -> JobFacts:
    """What is printed beside the forecast of a job without a run.

    Args:
        job: What is known.
        name: Of the model.
    """
    low, high = job.samples_per_s
    stated = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    jitter = [100 * end for end in job.priors.jitter]
    cache = "with" if job.is_cached else "without"
    assumptions = (
        f"One rank reaches {stated} samples/s at batch {job.batch_size}, as stated, not measured.",
        f"Each host has {units.counted(job.ranks_per_host, 'rank')} (--hosts-of).",
        "Backward takes two thirds of a step, shared by layers as their multiplications.",
        f"Ranks vary by {jitter[0]:g} to {jitter[1]:g} % of a step; lasting differences are about "
        "0.5 %.",
        f"Horovod negotiates over MPI {cache} its response cache.",
        "Input, update and a compute slowdown while communicating cost nothing.",
    )
    return JobFacts(
        baseline=STATED_BASELINE,
        measured={1: 1.0},
        algorithm=str(_rule(job.algorithm).name),
        assumptions=assumptions,
        missing=(
            Missing(f"A run of {name}", "priors stand in for it", _measuring(name).at([1, 2, 4])),
        ),
    )


def _measuring(name: str) -> MeasureCommand:
    # A module of the user's own, such as train:make_model, is trained by a script.
    if ":" in name and not name.startswith("emulate:"):
        return MeasureCommand("hvdprof run", ("python", "train.py"))
    return MeasureCommand(f"hvdprof bench --models {name}")


def _rule(algorithm: Algorithm | None) -> Rule:
    if algorithm is None or algorithm is Algorithm.RING:
        return always(Algorithm.RING)
    return next((rule for rule in RULES if rule.name == algorithm.value), always(algorithm))
