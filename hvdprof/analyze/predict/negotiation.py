"""Time of one negotiation of Horovod's loop, by number of ranks.

With the response cache, the ranks combine a bit vector of what is ready with one small allreduce
(``CrossRankBitwiseAnd`` in Horovod 0.28.1). Under MPI that is ``MPI_Allreduce`` with
``ceil(log2 N)`` rounds for so few bytes, under Gloo ``gloo::allreduce``, a ring with ``2 (N-1)``
messages. Without the cache, rank 0 gathers a list from every rank: N messages. So the time is
``base + message * messages(N)``.

It is measured where the loop is busy: a gradient that became ready during an execution waits for
the end of it, and the gap from there to its own execution is one negotiation. Waits for the next
cycle are no part of it, because an execution that is longer than the cycle is followed by the next
cycle at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.predict.collective_cost import Floats, Topology
from hvdprof.analyze.predict.posterior_draws import Posterior, Prior
from hvdprof.model.launch_key import LaunchKey, rows_by_launch

PRIORS: Mapping[str, Prior] = MappingProxyType(
    {
        "base": Prior(30_000.0, 1.0),
        "message": Prior(20_000.0, 1.2),
        "scatter": Prior(0.8, 0.5),
    }
)
"""Medians in ns and 1. Two ranks of one idle host negotiate within 0.06 ms in all, between the
first and the third quartile of 0.03 and 0.11 ms (Open MPI, two models); a standard deviation of the
logarithm of 1 spans Horovod's loop on slower cores, and networks from RDMA to slow TCP."""

MOST_GAPS = 300
_DEGREES = 4.0


class Growth(Enum):
    """How the messages of a negotiation grow with the number of ranks."""

    TREE = "log2"
    RING = "ring"
    GATHER = "gather"

    def messages(self, num_ranks: float) -> float:
        """Messages one after the other; 0 for one rank."""
        if num_ranks <= 1:
            return 0.0
        if self is Growth.TREE:
            return float(np.ceil(np.log2(num_ranks)))
        return float(2 * (num_ranks - 1) if self is Growth.RING else num_ranks)

    def crossing(self, topology: Topology) -> float:
        """The messages among them that go to another host."""
        hosts = topology.num_hosts
        if self is Growth.GATHER:
            return float(topology.num_ranks - topology.largest_host)
        return self.messages(hosts)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Measured negotiations: ranks of the launch, whether on several hosts, and their times."""

    num_ranks: NDArray[np.int64]
    over_hosts: NDArray[np.bool_]
    time_ns: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NegotiationDraws:
    """The time of a negotiation with its uncertainty.

    Attributes:
        growth: How it grows with the number of ranks.
        base_ns: Part that does not grow, one value per draw.
        message_ns: Time per message, one value per draw.
        over_hosts: Whether messages between hosts are among the measured ones.
        num_gaps: Measured negotiations behind it; 0 where all is assumed.
    """

    growth: Growth
    base_ns: NDArray[np.float64]
    message_ns: NDArray[np.float64]
    over_hosts: bool
    num_gaps: int

    def time_ns(self, topology: Topology, network_ns: Floats = 0.0) -> NDArray[np.float64]:
        """Typical nanoseconds of one negotiation, [draws]; 0 for one rank.

        Args:
            topology: Ranks and hosts.
            network_ns: By how much a message between hosts takes longer than one inside a host;
                it counts where only one host was measured.
        """
        if topology.num_ranks == 1:
            return np.zeros_like(self.base_ns)
        time = self.base_ns + self.message_ns * self.growth.messages(topology.num_ranks)
        if not self.over_hosts:
            time = time + self.growth.crossing(topology) * np.asarray(network_ns)
        return np.asarray(time, dtype=np.float64)


def growth_of(controller: str, environment: Mapping[str, str]) -> Growth:
    """The growth under a controller, ``gloo`` or ``mpi``, with the cache as the variables say."""
    if environment.get("HOROVOD_CACHE_CAPACITY", "").strip() == "0":
        return Growth.GATHER
    return Growth.RING if controller == "gloo" else Growth.TREE


def measured_gaps(
    collectives: pd.DataFrame,
    topology_of: Mapping[LaunchKey, Topology],
    cycle_ns_of: Mapping[LaunchKey, float],
) -> Gaps:
    """The negotiations that executions of a run show, none where it holds none.

    Args:
        collectives: COLLECTIVES.
        topology_of: Ranks and hosts of the launches that count.
        cycle_ns_of: Cycle time of these launches, from HOROVOD_CYCLE_TIME.
    """
    known = collectives[
        ~collectives["warmup"].to_numpy(dtype=bool)
        & collectives["dur_ns"].notna().to_numpy()
        & collectives["lag_ns"].notna().to_numpy()
    ].sort_values("start_ns", kind="stable")
    times, ranks, hosts = [], [], []
    for key, members in rows_by_launch(known):
        topology = topology_of.get(key)
        if topology is None or topology.num_ranks < 2:
            continue
        found = _gaps(known.iloc[members], cycle_ns_of[key])
        times.append(found)
        ranks.append(np.full(len(found), topology.num_ranks))
        hosts.append(np.full(len(found), topology.num_hosts > 1))
    if not times:
        return Gaps(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0))
    return Gaps(np.concatenate(ranks), np.concatenate(hosts), np.concatenate(times))


def _gaps(executions: pd.DataFrame, cycle_ns: float) -> NDArray[np.float64]:
    """From the end of an execution to the next one, whose gradients became ready meanwhile."""
    start = executions["start_ns"].to_numpy(dtype=np.float64)
    length = executions["dur_ns"].to_numpy(dtype=np.float64)
    ready = start - executions["lag_ns"].to_numpy(dtype=np.float64)
    end = start + length
    gap = start[1:] - end[:-1]
    is_meanwhile = (ready[1:] > start[:-1]) & (ready[1:] < end[:-1])
    return np.asarray(gap[is_meanwhile & (length[:-1] > cycle_ns) & (gap > 0)])


def negotiation_draws(
    gaps: Gaps,
    growth: Growth,
    random: np.random.Generator,
    num_draws: int,
    *,
    priors: Mapping[str, Prior] = PRIORS,
) -> NegotiationDraws:
    """The posterior of base and time per message; the priors alone where nothing was measured.

    The logarithm of a measured time scatters with Student's t of four degrees of freedom around
    that of ``base + message * messages(N)``.

    Args:
        gaps: Measured negotiations.
        growth: How their messages grow.
        random: Source of the draws.
        num_draws: Number of draws.
        priors: A prior for each name of ``PRIORS``.
    """
    chosen = _thinned(gaps.num_ranks)
    messages = np.array([growth.messages(number) for number in gaps.num_ranks[chosen]])
    logs = np.log(gaps.time_ns[chosen])

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.exp(sets)[:, :, np.newaxis]
        z = (logs - np.log(values[:, 0] + values[:, 1] * messages)) / values[:, 2]
        tails = -(_DEGREES + 1) / 2 * np.log1p(z**2 / _DEGREES)
        return np.asarray((tails - np.log(values[:, 2])).sum(axis=1))

    names = ("base", "message", "scatter")
    means = np.log([priors[name].median for name in names])
    errors = np.array([priors[name].log_error for name in names])
    fitted = Posterior(log_likelihood, means, errors)
    drawn = fitted.draws(fitted.mode(), random, num_draws)
    base, message = np.exp(drawn[:, 0]), np.exp(drawn[:, 1])
    return NegotiationDraws(growth, base, message, bool(gaps.over_hosts.any()), len(gaps.time_ns))


def _thinned(num_ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of at most ``MOST_GAPS`` of each number of ranks, spread evenly."""
    places: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for number in np.unique(num_ranks):
        members = np.flatnonzero(num_ranks == number)
        count = min(MOST_GAPS, len(members))
        places.append(members[np.linspace(0, len(members) - 1, count).round().astype(np.int64)])
    return np.concatenate(places)
