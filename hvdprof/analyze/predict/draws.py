"""The draws of a forecast, one group per uncertain input, the model's own error among them.

Groups are drawn independently of each other, so that one of them can be replaced alone: the
variance that it causes follows from that (``next_measurement``).

Beyond the measured sizes a forecast is wrong by a factor whose logarithm walks at random with every
doubling, the simplest form of the model discrepancy of Kennedy and O'Hagan (JRSS B 63, 2001). It
has two parts: one of the whole step, and a larger one of what the ranks lose to each other, because
a job that loses little has little to be wrong about. A draw has one path over all sizes.

Errors of earlier forecasts, where there are any, scale both: they join the prior as so many further
degrees of freedom. None counts as more than ``LARGEST_PAST_ERROR`` times the nominal error: beyond
that, the forecast was of another job than the measured one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Topology
from hvdprof.analyze.predict.costs.cost_draws import CostDraws, picked_link
from hvdprof.analyze.predict.costs.negotiation_draws import NegotiationDraws, draw_negotiation
from hvdprof.analyze.predict.own_work import JobInputs, OwnDraws, draw_own_work
from hvdprof.analyze.predict.rank_spread import (
    DifferenceDraws,
    JitterDraws,
    draw_differences,
    draw_jitter,
)
from hvdprof.model.arrays import Float64s, Int64s

STEP_ERROR = 0.005
"""Standard deviation per doubling of the logarithm of the whole step.

With 1 %, bands were a fifth wider, and 95 to 96 % of the 90 % bands held the truth of simulated
jobs (``benchmarks.forecast_simulated``, docs/explain/accuracy.md).
"""

LOSS_ERROR = 0.15
"""The same of the time lost to other ranks and to communication."""

NOMINAL_ERROR = math.hypot(STEP_ERROR, LOSS_ERROR * 0.2)
"""Error of a forecast per doubling that the two make for a job that loses a fifth of its steps."""

LARGEST_PAST_ERROR = 5.0
"""Bound of a past error per doubling, in nominal errors: 15 %.

A forecast that knows nothing but the efficiency of the largest measured size misses by up to 16 %
at twice the ranks, in nine of ten public tables (docs/howto/predict.md). A larger error is no
evidence on the model: the network, the placement or the settings were others.
"""

_PRIOR_DEGREES = 8.0
NUM_STEPS = 3
"""Simulated communications per draw: they differ in the recorded step and in the phase."""


@dataclass(frozen=True, slots=True)
class ModelErrorDraws:
    """Paths of the error, [draws, doublings]: the step of each doubling, of both parts."""

    of_step: Float64s
    of_loss: Float64s

    def logs(self, extrapolation: float) -> tuple[Float64s, Float64s]:
        """[draws] Logarithms of the factors of the step and of its losses.

        Sizes below the measured ones are as far away as larger ones.

        Args:
            extrapolation: Number of ranks divided by the largest measured one.
        """
        doublings = abs(np.log2(extrapolation))
        whole = min(int(doublings), self.of_step.shape[1] - 1)
        rest = np.sqrt(min(doublings - whole, 1.0))

        def walked(steps: Float64s) -> Float64s:
            return np.asarray(steps[:, :whole].sum(axis=1) + rest * steps[:, whole])

        return walked(self.of_step), walked(self.of_loss)


def draw_model_error(
    rng: np.random.Generator,
    num_draws: int,
    extrapolation: float,
    past_errors: Sequence[tuple[float, float]] = (),
) -> ModelErrorDraws:
    """Paths of the error up to an extrapolation ratio.

    Args:
        rng: Source of randomness.
        num_draws: Draws.
        extrapolation: The largest one that is asked for.
        past_errors: Extrapolation ratio, and logarithm of the measured over the predicted step.
    """
    scale = _scale_draws(rng, num_draws, past_errors)
    shape = (num_draws, int(abs(np.log2(extrapolation))) + 1)
    return ModelErrorDraws(
        STEP_ERROR * scale * rng.standard_normal(shape),
        LOSS_ERROR * scale * rng.standard_normal(shape),
    )


def _scale_draws(
    rng: np.random.Generator, num_draws: int, past_errors: Sequence[tuple[float, float]]
) -> Float64s:
    """[draws, 1] The unknown size of the errors, relative to the nominal one."""
    known = [(abs(np.log2(ratio)), error) for ratio, error in past_errors if ratio != 1]
    relative = [abs(error) / NOMINAL_ERROR / np.sqrt(doublings) for doublings, error in known]
    squares = sum(min(error, LARGEST_PAST_ERROR) ** 2 for error in relative)
    degrees = _PRIOR_DEGREES + len(known)
    drawn = (_PRIOR_DEGREES + squares) / rng.chisquare(degrees, num_draws)
    return np.asarray(np.sqrt(drawn))[:, None]


@dataclass(frozen=True, slots=True)
class ReadyDraws:
    """Recorded steps [draws, steps] whose ready times count, and a seed for the phases."""

    rows: Int64s
    seed: int


@dataclass(frozen=True, slots=True)
class ContentionDraws:
    """[draws] Share of the measured compute slowdown that communication causes."""

    share: Float64s


@dataclass(frozen=True, slots=True)
class LinkDraws:
    """Costs of collectives on the links of the run, and on those that are predicted.

    Both have the same draws of what they share. ``seed`` is that of other links.
    """

    measured: CostDraws
    predicted: CostDraws
    seed: int


@dataclass(frozen=True, slots=True)
class Draws:
    """All groups, in the order of ``model.forecast.INPUTS``; each has as many draws."""

    own: OwnDraws
    contention: ContentionDraws
    differences: DifferenceDraws
    jitter: JitterDraws
    ready: ReadyDraws
    links: LinkDraws
    negotiation: NegotiationDraws
    model: ModelErrorDraws


Network = Callable[[CostDraws, np.random.Generator], CostDraws]
"""Costs with other links, of as many draws."""


GROUPS: dict[str, str] = {
    "own-work": "own",
    "contention": "contention",
    "rank-differences": "differences",
    "jitter": "jitter",
    "ready-times": "ready",
    "links": "links",
    "negotiation": "negotiation",
    "model": "model",
}
"""The field of each of ``model.forecast.INPUTS``."""


def draw(
    job: JobInputs,
    rng: np.random.Generator,
    num_draws: int,
    largest: Topology,
    past_errors: Sequence[tuple[float, float]] = (),
) -> Draws:
    """Draws of every group, each with a generator of its own.

    Args:
        job: What is known of the job.
        rng: Source of randomness.
        num_draws: Draws.
        largest: The largest number of ranks that is predicted, and where they are.
        past_errors: As in ``model_error.draw_model_error``.
    """
    of = dict(zip(GROUPS, rng.spawn(len(GROUPS)), strict=True))
    most = max(largest.num_ranks, job.num_ranks)
    extrapolation = max(largest.num_ranks / job.num_ranks, job.num_ranks)
    return Draws(
        own=_own_draws(job, of["own-work"], num_draws),
        contention=ContentionDraws(of["contention"].random(num_draws)),
        differences=draw_differences(
            job.spread, of["rank-differences"], num_draws, Topology(most, largest.ranks_per_host)
        ),
        jitter=draw_jitter(job.spread.jitter, of["jitter"], num_draws, most),
        ready=ReadyDraws(
            of["ready-times"].integers(0, len(job.offsets_ns), (num_draws, NUM_STEPS)),
            int(of["ready-times"].integers(2**31)),
        ),
        links=_link_draws(job.costs, of["links"], num_draws),
        negotiation=draw_negotiation(of["negotiation"], num_draws),
        model=draw_model_error(of["model"], num_draws, extrapolation, past_errors),
    )


def _own_draws(job: JobInputs, rng: np.random.Generator, num_draws: int) -> OwnDraws:
    drawn = draw_own_work(job.own, rng, num_draws)
    reach = np.log(job.step_factor)
    factors = np.exp(rng.uniform(-reach, reach, num_draws))
    return replace(
        drawn,
        baseline_ns=drawn.baseline_ns * factors,
        reference_ns=drawn.reference_ns * factors,
    )


def under(draws: Draws, network: Network) -> Draws:
    """The same draws on other links: all networks see the same ranks and errors.

    Args:
        draws: Draws on the links of the run.
        network: The links that are predicted.
    """
    measured = draws.links.measured
    rng = np.random.default_rng(draws.links.seed)
    return replace(draws, links=LinkDraws(measured, network(measured, rng), draws.links.seed))


def _link_draws(costs: CostDraws, rng: np.random.Generator, num_draws: int) -> LinkDraws:
    picks = rng.integers(0, costs.num_draws, num_draws)
    measured = replace(
        costs,
        rule_of_draw=costs.rule_of_draw[picks],
        intra=picked_link(costs.intra, picks),
        inter=picked_link(costs.inter, picks),
        overhead_ns=costs.overhead_ns[picks],
    )
    return LinkDraws(measured, measured, int(rng.integers(2**31)))
