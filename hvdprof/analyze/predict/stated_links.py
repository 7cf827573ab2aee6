"""Links that no run measured: what the user states, and scenarios for the network between hosts.

A job reaches less than the nominal bandwidth: 55 to 95 % of it between hosts, 50 to 100 % inside.
Latencies are uncertain by a quarter where they are stated, by a factor of 1.6 where they are
assumed. Software takes its own time per message on every link: where messages inside a host were
measured, their latency is added to that of the network, and no byte moves faster than inside.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.algorithm_choice import PRIORS
from hvdprof.analyze.predict.algorithm_rules import Rule
from hvdprof.analyze.predict.collective_cost import Link
from hvdprof.analyze.predict.cost_draws import CostDraws
from hvdprof.analyze.predict.link_text import StatedLink
from hvdprof.analyze.predict.posterior_draws import Prior

SCENARIOS: tuple[StatedLink, ...] = (
    StatedLink("1Gbit", 0.125, 50_000.0),
    StatedLink("10Gbit", 1.25, 30_000.0),
    StatedLink("25Gbit", 3.125, 15_000.0),
    StatedLink("100Gbit", 12.5, 8_000.0),
    StatedLink("400Gbit", 50.0, 5_000.0),
)
"""Networks between hosts where none was measured: Ethernet with TCP for 1 and 10 Gb/s, RDMA from
25 Gb/s on. The latencies are assumptions, each in the middle of what such networks have."""

ASSUMED_LATENCY_NS = 11_000.0
"""Of a stated network without latency: the geometric mean of 5 and 25 us."""

_USE_BETWEEN = 0.55, 0.95
_USE_INSIDE = 0.5, 1.0
_STATED_ERROR, _ASSUMED_ERROR = 0.25, 0.45


def drawn_link(
    stated: StatedLink, random: np.random.Generator, num_draws: int, *, between_hosts: bool
) -> Link:
    """A stated link as draws: a share of its bandwidth, and a latency around the stated one."""
    low, high = _USE_BETWEEN if between_hosts else _USE_INSIDE
    share = random.uniform(low, high, num_draws)
    is_assumed = stated.latency_ns is None or stated in SCENARIOS
    latency = ASSUMED_LATENCY_NS if stated.latency_ns is None else stated.latency_ns
    error = _ASSUMED_ERROR if is_assumed else _STATED_ERROR
    alpha = latency * np.exp(error * random.standard_normal(num_draws))
    return Link(alpha, 1 / (stated.bytes_per_ns * share))


def with_network(
    draws: CostDraws, stated: StatedLink, random: np.random.Generator, *, intra_is_measured: bool
) -> CostDraws:
    """The draws with a stated network between the hosts in place of the measured one.

    Args:
        draws: Costs whose network is replaced.
        stated: The network.
        random: Source of the draws.
        intra_is_measured: Whether the links inside a host come from measured allreduces, whose
            latency and bandwidth contain the work of the processor for each message.
    """
    wire = drawn_link(stated, random, draws.num_draws, between_hosts=True)
    if not intra_is_measured:
        return replace(draws, inter=wire)
    alpha = np.asarray(wire.alpha_ns) + np.asarray(draws.intra.alpha_ns)
    beta = np.maximum(wire.beta_ns_per_byte, draws.intra.beta_ns_per_byte)
    return replace(draws, inter=Link(alpha, beta))


def with_intra(draws: CostDraws, stated: StatedLink, random: np.random.Generator) -> CostDraws:
    """The draws with a stated link inside the hosts in place of the measured one."""
    link = drawn_link(stated, random, draws.num_draws, between_hosts=False)
    return replace(draws, intra=link)


def with_rule(draws: CostDraws, rule: Rule) -> CostDraws:
    """The draws with one algorithm for all, as ``--algorithm`` asks for."""
    return replace(draws, rules=(rule,), rule_of_draw=np.zeros(draws.num_draws, dtype=np.int64))


def assumed_draws(rule: Rule, random: np.random.Generator, num_draws: int) -> CostDraws:
    """Costs where no allreduce was measured: the priors of ``algorithm_choice``."""

    def drawn(prior: Prior) -> NDArray[np.float64]:
        normal = random.standard_normal(num_draws)
        return np.asarray(prior.median * np.exp(prior.log_error * normal))

    return CostDraws(
        (rule,),
        np.zeros(num_draws, dtype=np.int64),
        Link(drawn(PRIORS["intra_alpha"]), drawn(PRIORS["intra_beta"])),
        Link(drawn(PRIORS["inter_alpha"]), drawn(PRIORS["inter_beta"])),
        drawn(PRIORS["overhead"]),
        np.empty(0),
        np.empty(0),
    )
