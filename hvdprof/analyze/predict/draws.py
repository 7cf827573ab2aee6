"""The draws of a forecast, one group per uncertain input.

Groups are drawn independently of each other, so that one of them can be replaced alone: the
variance that it causes follows from that (``width_sources``).

Tested in ``tests/analyze/predict/test_predicted_step.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.collective_cost import Topology
from hvdprof.analyze.predict.cost_draws import CostDraws
from hvdprof.analyze.predict.job_inputs import JobInputs
from hvdprof.analyze.predict.model_error import ModelErrorDraws, draw_model_error
from hvdprof.analyze.predict.negotiation_draws import NegotiationDraws, draw_negotiation
from hvdprof.analyze.predict.own_work import OwnDraws, draw_own_work
from hvdprof.analyze.predict.pricing import picked_link
from hvdprof.analyze.predict.rank_spread import (
    DifferenceDraws,
    JitterDraws,
    draw_differences,
    draw_jitter,
)
from hvdprof.model.arrays import Float64s, Int64s

NUM_STEPS = 3
"""Simulated communications per draw: they differ in the recorded step and in the phase."""


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
