"""Time of one allreduce by algorithm, number of ranks, ranks per host, and payload.

Every formula is of Hockney's form (Parallel Computing 20, 1994): ``alpha`` per message and ``beta``
per byte, one pair for the links inside a host and one for the network between hosts. The ranks of
a host share its network: ranks that send to other hosts at the same time divide its bandwidth. The
time of the reduction itself is part of ``beta``, as in a fit to measured allreduces.

Sources: Patarasuk and Yuan (JPDC 69, 2009) for the ring, Thakur, Rabenseifner and Gropp (IJHPCA 19,
2005) for recursive doubling and Rabenseifner's algorithm, Sanders, Speck and Traeff (Parallel
Computing 35, 2009) and ``tuning.cc`` of NCCL for the tree, Li et al. (OSDI 2014) for the parameter
server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Floats = float | NDArray[np.float64]
"""One number, or one per draw; shapes broadcast as in numpy."""


class Algorithm(StrEnum):
    """How the ranks reduce a buffer; the value is the name that options and tables use."""

    RING = "ring"
    TREE = "tree"
    RECURSIVE_DOUBLING = "recursive-doubling"
    RABENSEIFNER = "rabenseifner"
    HIERARCHICAL = "hierarchical"
    PARAMETER_SERVER = "parameter-server"


@dataclass(frozen=True, slots=True)
class Link:
    """The time of a message: ``alpha_ns + beta_ns_per_byte * bytes``.

    Between hosts, ``beta_ns_per_byte`` is that of a host with all of its network interfaces
    together. The first ``burst_bytes`` that an allreduce sends over the link take no time: they fit
    into buffers, or a rate limiter lets them pass at once. Arrays hold one value per draw.
    """

    alpha_ns: Floats
    beta_ns_per_byte: Floats
    burst_bytes: Floats = 0.0


@dataclass(frozen=True, slots=True)
class Topology:
    """Ranks placed host by host: rank r is on host ``r // ranks_per_host``.

    ``num_servers`` counts the shards of a parameter server, each with a network of its own; other
    algorithms do not use it.

    Raises:
        ValueError: One of the numbers is below 1.
    """

    num_ranks: int
    ranks_per_host: int
    num_servers: int = 1

    def __post_init__(self) -> None:
        if min(self.num_ranks, self.ranks_per_host, self.num_servers) < 1:
            raise ValueError(f"all numbers of a topology are at least 1: {self}")

    @property
    def num_hosts(self) -> int:
        """Hosts; the last one holds fewer ranks where the division leaves a remainder."""
        return -(-self.num_ranks // self.ranks_per_host)

    @property
    def largest_host(self) -> int:
        """Ranks of the fullest host."""
        return min(self.num_ranks, self.ranks_per_host)


def cost_ns(
    algorithm: Algorithm, topology: Topology, intra: Link, inter: Link, size_bytes: Floats
) -> NDArray[np.float64]:
    """Nanoseconds of one allreduce, in the shape that the links and sizes broadcast to.

    0 for one rank, except with a parameter server. Links with one value per draw and several sizes
    need an axis each, ``alpha[:, np.newaxis]``.

    Args:
        algorithm: How the ranks reduce.
        topology: Ranks and hosts.
        intra: Two ranks of one host. Unused where every host has one rank.
        inter: A host and the network. Unused on one host.
        size_bytes: Payload after compression.
    """
    terms = cost_terms(algorithm, topology)
    size = np.asarray(size_bytes, dtype=np.float64)
    in_host = _times(terms.intra_messages, intra.alpha_ns)
    between = _times(terms.inter_messages, inter.alpha_ns)
    inner = _transfer_ns(terms.intra_sizes * size, intra)
    outer = _transfer_ns(terms.inter_sizes * size, inter)
    # A pipeline moves at the speed of its slowest link; rounds one after the other add up.
    moved = np.maximum(inner, outer) if terms.is_pipelined else inner + outer
    return np.asarray(in_host + between + moved, dtype=np.float64)


def _times(number: float, values: Floats) -> NDArray[np.float64]:
    """The product; 0 where the link is not used, even if nothing is known of it."""
    known = np.asarray(values, dtype=np.float64)
    return number * known if number else np.zeros_like(known)


def _transfer_ns(moved_bytes: NDArray[np.float64], link: Link) -> NDArray[np.float64]:
    """The time of all bytes that an allreduce sends over a link; 0 where it is not used."""
    if not moved_bytes.any():
        return moved_bytes
    beyond = np.maximum(moved_bytes - np.asarray(link.burst_bytes), 0.0)
    return np.asarray(beyond * link.beta_ns_per_byte, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CostTerms:
    """The coefficients of a formula: messages times alpha, payloads times beta.

    ``intra_sizes`` and ``inter_sizes`` are multiples of the payload. Where the transfers of both
    levels run at the same time (``is_pipelined``), the longer of the two counts, else their sum.
    """

    intra_messages: float
    inter_messages: float
    intra_sizes: float
    inter_sizes: float
    is_pipelined: bool = False


@lru_cache(maxsize=4096)
def cost_terms(algorithm: Algorithm, topology: Topology) -> CostTerms:
    """The coefficients of one algorithm on one topology."""
    if topology.num_ranks == 1 and algorithm is not Algorithm.PARAMETER_SERVER:
        return CostTerms(0, 0, 0, 0)
    return _FORMULAS[algorithm](topology)


def _ring(topology: Topology) -> CostTerms:
    """``2 (N-1)`` messages in sequence and ``2 (N-1)/N`` of the payload over every link.

    A ring over h hosts crosses the network at ``2 (h-1)`` of these messages, and once per host in
    each direction: ranks of one host do not compete for it.
    """
    ranks, hosts = topology.num_ranks, topology.num_hosts
    between = 2 * (hosts - 1)
    sizes = 2 * (ranks - 1) / ranks
    return CostTerms(
        intra_messages=2 * (ranks - 1) - between,
        inter_messages=between,
        intra_sizes=sizes if topology.largest_host > 1 else 0,
        inter_sizes=sizes if hosts > 1 else 0,
        is_pipelined=True,
    )


def _tree(topology: Topology) -> CostTerms:
    """A pipelined double binary tree over the hosts, a chain inside each: up and down.

    Each half of the payload uses one of the two trees, so a host receives and sends all of it
    twice: on the way up and on the way down.
    """
    hosts, local = topology.num_hosts, topology.largest_host
    return CostTerms(
        intra_messages=2 * (local - 1),
        inter_messages=2 * float(np.log2(hosts)),
        intra_sizes=2 if local > 1 else 0,
        inter_sizes=2 if hosts > 1 else 0,
        is_pipelined=True,
    )


def _recursive_doubling(topology: Topology) -> CostTerms:
    """``log2 N`` rounds, each with the whole payload."""
    shares = [1.0] * (topology.num_ranks.bit_length() - 1)
    return _rounds(topology, shares, repeated=1, messages_of_fold=2)


def _rabenseifner(topology: Topology) -> CostTerms:
    """Recursive halving, the half of the payload with the next rank first, and back again."""
    shares = [0.5 ** (number + 1) for number in range(topology.num_ranks.bit_length() - 1)]
    return _rounds(topology, shares, repeated=2, messages_of_fold=3)


def _rounds(
    topology: Topology, shares: list[float], *, repeated: int, messages_of_fold: int
) -> CostTerms:
    """Rounds of exchanges at distance 1, 2, 4 ...; a share of the payload each.

    A round between hosts takes as long as the host with the most ranks that exchange with another
    host. Where N is no power of two, each surplus rank is folded into its neighbour before the
    first round and receives the result after the last one: two payloads more.
    """
    crossing = _crossing_ranks(topology)
    within = [share for share, number in zip(shares, crossing, strict=True) if not number]
    between = [(share, number) for share, number in zip(shares, crossing, strict=True) if number]
    fold = _fold(topology, messages_of_fold)
    return CostTerms(
        intra_messages=fold.intra_messages + repeated * len(within),
        inter_messages=fold.inter_messages + repeated * len(between),
        intra_sizes=fold.intra_sizes + repeated * sum(within),
        inter_sizes=fold.inter_sizes + repeated * sum(share * n for share, n in between),
    )


def _fold(topology: Topology, messages: int) -> CostTerms:
    """The exchange of each surplus rank with its neighbour, before and after the rounds."""
    surplus = topology.num_ranks - _paired(topology)
    evens = np.arange(0, 2 * surplus, 2)
    if not surplus:
        return CostTerms(0, 0, 0, 0)
    if np.any(evens // topology.ranks_per_host != (evens + 1) // topology.ranks_per_host):
        return CostTerms(0, messages, 0, 2)
    return CostTerms(messages, 0, 2, 0)


def _paired(topology: Topology) -> int:
    """The largest power of two that is not above the number of ranks."""
    return 1 << (topology.num_ranks.bit_length() - 1)


def _crossing_ranks(topology: Topology) -> list[int]:
    """Per round, the most ranks of a host that exchange with a rank of another host.

    Of the first ``2 * surplus`` ranks, those with an odd number take part; all later ones do.
    """
    paired = _paired(topology)
    surplus = topology.num_ranks - paired
    numbers = np.arange(paired)
    ranks = np.where(numbers < surplus, 2 * numbers + 1, numbers + surplus)
    hosts = ranks // topology.ranks_per_host
    counts = []
    for number in range(paired.bit_length() - 1):
        partners = hosts[numbers ^ (1 << number)]
        counts.append(int(np.bincount(hosts, weights=hosts != partners).max()))
    return counts


def _hierarchical(topology: Topology) -> CostTerms:
    """Reduce-scatter inside every host, a ring over hosts per local rank, all-gather inside.

    Each of the rings moves one part of the payload, and all of them share the network of the host:
    together they move as much as one ring over the hosts with the whole payload.
    """
    hosts, local = topology.num_hosts, topology.largest_host
    return CostTerms(
        intra_messages=2 * (local - 1),
        inter_messages=2 * (hosts - 1),
        intra_sizes=2 * (local - 1) / local,
        inter_sizes=2 * (hosts - 1) / hosts,
    )


def _parameter_server(topology: Topology) -> CostTerms:
    """Every rank sends its gradients to the servers and receives the sums: two messages.

    A server moves ``2 N / servers`` payloads and a host ``2`` per rank of its own; the slower of
    the two counts. The servers are on hosts of their own, so that one worker uses the network too.
    """
    workers_per_server = topology.num_ranks / topology.num_servers
    return CostTerms(0, 2, 0, 2 * max(workers_per_server, topology.largest_host))


_FORMULAS: Mapping[Algorithm, Callable[[Topology], CostTerms]] = MappingProxyType(
    {
        Algorithm.RING: _ring,
        Algorithm.TREE: _tree,
        Algorithm.RECURSIVE_DOUBLING: _recursive_doubling,
        Algorithm.RABENSEIFNER: _rabenseifner,
        Algorithm.HIERARCHICAL: _hierarchical,
        Algorithm.PARAMETER_SERVER: _parameter_server,
    }
)
