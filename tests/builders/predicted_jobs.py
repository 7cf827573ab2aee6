"""Jobs whose inputs to a forecast are stated directly."""

import math
from dataclasses import replace

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Link
from hvdprof.analyze.predict.costs.cost_draws import GLOO, CostDraws
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.predict.jitter import Jitter, no_jitter
from hvdprof.analyze.predict.own_work import JobInputs, OwnWork, Reduction, StepParts
from hvdprof.analyze.predict.rank_spread import RankSpread, Variance
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.model.arrays import Float64s

MS = 1e6
NUM_COSTS = 50


def stated_costs(
    *,
    intra: tuple[float, float] = (5e3, 0.2),
    inter: tuple[float, float] = (20e3, 0.4),
    log_error: float = 0.0,
) -> CostDraws:
    """Costs of a ring on links with these latencies (ns) and times per byte (ns)."""
    factors = np.exp(log_error * np.random.default_rng(1).standard_normal(NUM_COSTS))
    inside, between = (Link(alpha * factors, beta * factors) for alpha, beta in (intra, inter))
    of_draw = np.zeros(NUM_COSTS, dtype=np.int64)
    return CostDraws(
        (GLOO,), of_draw, inside, between, np.zeros(NUM_COSTS), np.empty(0), np.empty(0)
    )


def stated_job(
    *,
    compute_ms: float = 100.0,
    exposed_ms: float = 0.0,
    slowdown: float = 0.0,
    error: float = 0.0,
    num_ranks: int = 4,
    ranks_per_host: int = 4,
    jitter: Jitter | None = None,
    costs: CostDraws | None = None,
    gradient_bytes: float = 40e6,
    offsets_ns: Float64s | None = None,
) -> JobInputs:
    """A job of ten gradients that are ready over the last half of its step.

    ``error`` is that of the logarithms of the measured step times; ``exposed_ms`` is measured at
    ``num_ranks``.
    """
    baseline = StepParts(
        batch_size=32,
        step_ns=(compute_ms + 4) * MS,
        data_ns=1 * MS,
        compute_ns=compute_ms * MS,
        update_ns=2 * MS,
        outside_ns=1 * MS,
    )
    reference = replace(
        baseline,
        compute_ns=compute_ms * (1 + slowdown) * MS,
        exposed_ns=exposed_ms * MS,
        step_ns=(compute_ms * (1 + slowdown) + 4 + exposed_ms) * MS,
    )
    if offsets_ns is None:
        offsets_ns = -np.linspace(compute_ms / 2, 0, 10)[None, :] * MS
    return JobInputs(
        num_ranks=num_ranks,
        ranks_per_host=ranks_per_host,
        own=OwnWork(
            reference=reference,
            baseline=baseline,
            log_step=LogEstimate(math.log(baseline.step_ns), error, 10),
            log_ratio=LogEstimate(math.log(reference.step_ns / baseline.step_ns), error, 10),
            slowdown=slowdown,
        ),
        spread=RankSpread(jitter or no_jitter(), Variance(0.0, 1e6)),
        reduction=Reduction(
            Gradients.of_sizes([int(gradient_bytes / 10)] * 10), LoopSettings(cycle_ns=1e3)
        ),
        offsets_ns=offsets_ns,
        costs=costs or stated_costs(),
        negotiates=Negotiates.NEVER,
        is_anchored=exposed_ms > 0,
    )
