"""The time of collectives with its uncertainty, draw by draw, by the algorithm that runs."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.costs.collective_cost import (
    Algorithm,
    CostTerms,
    Floats,
    Link,
    Topology,
    cost_ns,
    cost_terms,
)
from hvdprof.model.arrays import Float64s, Int64s

_ANY = 2**62

_MOST_NEAR, _NEAR_FACTOR = 40, 2.0
"""Neighbours of a cost: at most so many, within this factor. Small allreduces scatter by factors
that large ones do not have, so the nearest by rank alone are none."""

_NUM_TYPICAL = 5
"""So many observations at the typical time are added to the neighbours of a cost: few of them say
little on the mean."""

_LARGEST_FACTOR = 2.0
"""A mean far above the typical time comes from stalls, which are no property of the link."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Algorithms by number of ranks and payload.

    Attributes:
        name: As tables and reports print it.
        rows: ``(below_ranks, ((below_bytes, algorithm), ...))`` with both bounds rising. The first
            row and the first pair that fit count.
        alternative: An algorithm that is used instead wherever it is faster; None for none.
    """

    name: str
    rows: tuple[tuple[int, tuple[tuple[int, Algorithm], ...]], ...]
    alternative: Algorithm | None = None

    def algorithms(self, num_ranks: int) -> tuple[tuple[int, Algorithm], ...]:
        """``(below_bytes, algorithm)`` at a number of ranks, the last without a bound."""
        return next(pairs for below, pairs in self.rows if num_ranks < below)

    def cost_ns(
        self, topology: Topology, intra: Link, inter: Link, size_bytes: Floats
    ) -> NDArray[np.float64]:
        """Nanoseconds of one allreduce, shaped as by ``collective_cost.cost_ns``."""
        size = np.asarray(size_bytes, dtype=np.float64)
        pairs = self.algorithms(topology.num_ranks)
        time = cost_ns(pairs[-1][1], topology, intra, inter, size)
        for below, algorithm in reversed(pairs[:-1]):
            smaller = cost_ns(algorithm, topology, intra, inter, size)
            time = np.where(size < below, smaller, time)
        if self.alternative is not None:
            time = np.minimum(time, cost_ns(self.alternative, topology, intra, inter, size))
        return np.asarray(time, dtype=np.float64)

    def terms(self, topology: Topology, size_bytes: float) -> tuple[CostTerms, ...]:
        """The coefficients at one payload; with an alternative two of them, the faster counts."""
        pairs = self.algorithms(topology.num_ranks)
        chosen = next(algorithm for below, algorithm in pairs if size_bytes < below)
        both = (chosen,) if self.alternative is None else (chosen, self.alternative)
        return tuple(cost_terms(algorithm, topology) for algorithm in both)


def always(algorithm: Algorithm) -> Rule:
    """One algorithm at every number of ranks and every payload."""
    return Rule(algorithm.value, ((_ANY, ((_ANY, algorithm),)),))


def _switching(small: Algorithm, below: int, large: Algorithm) -> tuple[tuple[int, Algorithm], ...]:
    return (below, small), (_ANY, large)


_DOUBLING, _HALVING, _RING = (
    Algorithm.RECURSIVE_DOUBLING,
    Algorithm.RABENSEIFNER,
    Algorithm.RING,
)

GLOO = Rule("gloo", always(_RING).rows)

OPEN_MPI_40 = Rule("open-mpi-4.0", ((_ANY, _switching(_DOUBLING, 10_000, _RING)),))
"""Releases up to 4.0: recursive doubling below 10,000 bytes, else a ring."""

OPEN_MPI_41 = Rule(
    "open-mpi-4.1",
    (
        (
            4,
            (
                (4_096, _DOUBLING),
                (8_192, _RING),
                (16_384, _DOUBLING),
                (262_144, _RING),
                (_ANY, _HALVING),
            ),
        ),
        (16, _switching(_DOUBLING, 8_192, _HALVING)),
        (32, _switching(_DOUBLING, 4_096, _HALVING)),
        (64, _switching(_RING, 128, _HALVING)),
        (128, _switching(_DOUBLING, 262_144, _HALVING)),
        (256, _switching(_DOUBLING, 262_144, _HALVING)),
        (512, _switching(_DOUBLING, 4_096, _HALVING)),
        (2_048, _switching(_DOUBLING, 16_384, _HALVING)),
        (_ANY, _switching(_DOUBLING, 32_768, _HALVING)),
    ),
)
"""Releases from 4.1 on, for sums: recursive doubling for small buffers, else Rabenseifner.

Segmented rings count as rings. Reduce and broadcast one after the other, which releases from 4.1 on
use below 4 kB from 128 ranks on (below 128 kB from 128 to 255), count as recursive doubling: both
have a number of rounds that grows with the logarithm of N.
"""

NCCL = Rule("nccl", always(_RING).rows, alternative=Algorithm.TREE)

RULES: tuple[Rule, ...] = (
    GLOO,
    OPEN_MPI_41,
    OPEN_MPI_40,
    NCCL,
    always(Algorithm.TREE),
    always(Algorithm.RECURSIVE_DOUBLING),
    always(Algorithm.RABENSEIFNER),
    always(Algorithm.HIERARCHICAL),
)
"""What measured times are compared with; a ring is listed as Gloo's."""


@dataclass(frozen=True, slots=True)
class CostDraws:
    """The cost of allreduces with its uncertainty: one rule and one set of links per draw.

    Attributes:
        rules: The rules in use.
        rule_of_draw: Place in ``rules``, one per draw.
        intra: Links inside a host, one value per draw.
        inter: Links between hosts, one value per draw.
        overhead_ns: Time of the library per allreduce, one value per draw.
        log_residuals: Logarithm of measured over fitted time, by rising fitted time.
        residual_costs_ns: The fitted times of the residuals.
    """

    rules: tuple[Rule, ...]
    rule_of_draw: NDArray[np.int64]
    intra: Link
    inter: Link
    overhead_ns: NDArray[np.float64]
    log_residuals: NDArray[np.float64]
    residual_costs_ns: NDArray[np.float64]

    @property
    def num_draws(self) -> int:
        """The number of draws."""
        return len(self.rule_of_draw)

    def cost_ns(self, topology: Topology, size_bytes: Floats) -> NDArray[np.float64]:
        """Typical nanoseconds of one allreduce, [draws, sizes]; 0 for one rank."""
        sizes = np.atleast_1d(np.asarray(size_bytes, dtype=np.float64))
        result = np.zeros((self.num_draws, len(sizes)))
        if topology.num_ranks == 1:
            return result
        for place, rule in enumerate(self.rules):
            chosen = np.flatnonzero(self.rule_of_draw == place)
            intra, inter = _rows(self.intra, chosen), _rows(self.inter, chosen)
            result[chosen] = rule.cost_ns(topology, intra, inter, sizes)
        return np.asarray(result + self.overhead_ns[:, np.newaxis])

    def neighbours(
        self, costs_ns: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each cost, the first and one past the last of the residuals that are near it.

        These are at most 40 within a factor of 2 in time; none far from all measured times.
        """
        fitted = self.residual_costs_ns
        low = np.searchsorted(fitted, costs_ns / _NEAR_FACTOR)
        high = np.searchsorted(fitted, costs_ns * _NEAR_FACTOR, side="right")
        centred = np.searchsorted(fitted, costs_ns) - _MOST_NEAR // 2
        first = np.clip(centred, low, np.maximum(low, high - _MOST_NEAR))
        return first, np.minimum(first + _MOST_NEAR, high)


def _rows(link: Link, places: NDArray[np.int64]) -> Link:
    """The values of some draws, [draws, 1]."""
    return Link(*(_of_draws(values, places)[:, np.newaxis] for values in _values(link)))


def _values(link: Link) -> tuple[Floats, Floats, Floats]:
    return link.alpha_ns, link.beta_ns_per_byte, link.burst_bytes


def _of_draws(values: Floats, places: NDArray[np.int64]) -> NDArray[np.float64]:
    known = np.asarray(values, dtype=np.float64)
    return known[places] if known.ndim else np.full(len(places), float(known))


class Pricing:
    """Prices collectives of the draws of ``costs``, each of which simulates several steps.

    Rows are draws, each as often as it has steps, one after the other. Arrays of rows are prepared
    once: a loop prices a collective for each of its gradients.
    """

    def __init__(self, costs: CostDraws, topology: Topology, num_steps: int) -> None:
        self._topology, self._costs = topology, costs
        draw_of = np.repeat(np.arange(costs.num_draws), num_steps)
        of_row = costs.rule_of_draw[draw_of]
        self._overhead = costs.overhead_ns[draw_of]
        self._parts = []
        for place in np.unique(costs.rule_of_draw):
            rows = np.flatnonzero(of_row == place)
            all_rows = slice(None) if len(rows) == len(of_row) else rows
            rule = costs.rules[place]
            links = (picked_link(link, draw_of[rows]) for link in (costs.intra, costs.inter))
            self._parts.append((rule, all_rows, *links))
        residuals = costs.log_residuals
        self._sums = np.concatenate([[0.0], np.cumsum(np.exp(np.clip(residuals, -2.0, 2.0)))])

    def cost_ns(self, size_bytes: Float64s) -> Float64s:
        """[rows] The mean time of a collective of so many bytes per row, ns."""
        if self._topology.num_ranks == 1:
            return np.zeros_like(size_bytes)
        # Times how much the mean of measured times exceeds the typical one, near each time.
        typical = self._typical(size_bytes)
        first, stop = self._costs.neighbours(typical)
        near = self._sums[stop] - self._sums[first]
        factors = (near + _NUM_TYPICAL) / (stop - first + _NUM_TYPICAL)
        return np.asarray(typical * np.minimum(factors, _LARGEST_FACTOR))

    def latency_share(self, size_bytes: Float64s) -> Float64s:
        """[rows] The share of that time which does not depend on the number of bytes."""
        whole = np.maximum(self._typical(size_bytes), 1e-9)
        return np.asarray(self._typical(size_bytes, bandwidth=False) / whole)

    def _typical(self, size_bytes: Float64s, *, bandwidth: bool = True) -> Float64s:
        found = self._overhead.copy()
        for rule, rows, intra, inter in self._parts:
            links = (intra, inter) if bandwidth else (_without_size(intra), _without_size(inter))
            found[rows] += rule.cost_ns(self._topology, *links, size_bytes[rows])
        return found


def picked_link(link: Link, places: Int64s) -> Link:
    """The values of some draws of a link, of numbers as often as there are places."""
    values = {
        field.name: np.asarray(getattr(link, field.name), dtype=np.float64)
        for field in fields(link)
    }
    return Link(
        **{
            name: value[places] if value.ndim else np.full(len(places), float(value))
            for name, value in values.items()
        }
    )


def _without_size(link: Link) -> Link:
    return replace(link, beta_ns_per_byte=np.zeros_like(np.asarray(link.beta_ns_per_byte)))
