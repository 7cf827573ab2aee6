"""The time in which the ranks agree on which gradients are ready, by number of ranks.

With the response cache every cycle is one or two allreduces of a few bytes: a bit per cached tensor
(``CoordinateCacheAndState`` of Horovod). They run over the controller, MPI or Gloo, on the CPU,
also where NCCL reduces the gradients: by recursive doubling under MPI, as a ring under Gloo.
Without the cache rank 0 gathers the lengths and then the messages of all ranks, and broadcasts the
length of the answer and the answer; it works on every message, so that the time grows with N. All
follow from the latencies of the links; how many allreduces a cycle makes, and how much work a
message is, are draws.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Topology
from hvdprof.analyze.predict.costs.cost_draws import CostDraws, Pricing, always
from hvdprof.analyze.predict.costs.stated_links import with_rule
from hvdprof.model.arrays import Float64s

_BITS_BYTES = 64.0
"""The bits of some hundred cached tensors."""

_ALLREDUCES = (1.0, 2.0)
_GATHERS_AND_BROADCASTS = 4.0
_MESSAGE_WORK_NS = (1_000.0, 15_000.0)
"""Work of rank 0 for the requests of one other rank, without the response cache."""


class Negotiates(StrEnum):
    """How the ranks agree."""

    BY_MPI_CACHE = "cache, MPI"
    BY_GLOO_CACHE = "cache, Gloo"
    BY_GATHER = "gather"
    NEVER = "never"
    """DDP's buckets are fixed."""


@dataclass(frozen=True, slots=True)
class NegotiationDraws:
    """[draws] Allreduces per cycle, and work of rank 0 per message, ns."""

    allreduces: Float64s
    message_ns: Float64s


def draw_negotiation(rng: np.random.Generator, num_draws: int) -> NegotiationDraws:
    """Uniform draws of both."""
    return NegotiationDraws(
        rng.uniform(*_ALLREDUCES, num_draws), rng.uniform(*_MESSAGE_WORK_NS, num_draws)
    )


def negotiation_ns(
    how: Negotiates, draws: NegotiationDraws, costs: CostDraws, topology: Topology
) -> Float64s:
    """[draws] The time of one negotiation; 0 for one rank.

    Args:
        how: How the ranks agree.
        draws: What is not known of it.
        costs: Links; the algorithm is that of the controller.
        topology: Ranks and hosts.
    """
    nothing = np.zeros(costs.num_draws)
    if how is Negotiates.NEVER or topology.num_ranks == 1:
        return nothing
    is_ring = how is Negotiates.BY_GLOO_CACHE
    rule = always(Algorithm.RING if is_ring else Algorithm.RECURSIVE_DOUBLING)
    small = Pricing(with_rule(costs, rule), topology, 1).cost_ns(nothing + _BITS_BYTES)
    if how is Negotiates.BY_GATHER:
        # A tree has as many rounds as recursive doubling.
        work = (topology.num_ranks - 1) * draws.message_ns
        return np.asarray(_GATHERS_AND_BROADCASTS * small + work)
    return np.asarray(draws.allreduces * small)
