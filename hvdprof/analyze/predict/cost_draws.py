"""The cost of allreduces with its uncertainty, for the draws of a forecast."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.algorithm_rules import Rule
from hvdprof.analyze.predict.collective_cost import Floats, Link, Topology

_MOST_NEAR, _NEAR_FACTOR = 40, 2.0
"""Neighbours of a cost: at most so many, within this factor. Small allreduces scatter by factors
that large ones do not have, so the nearest by rank alone are none."""


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

    def cost_of_draws_ns(
        self, topology: Topology, size_bytes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Typical nanoseconds of one allreduce per draw, each with a payload of its own [draws]."""
        result = np.zeros(self.num_draws)
        if topology.num_ranks == 1:
            return result
        for place, rule in enumerate(self.rules):
            chosen = np.flatnonzero(self.rule_of_draw == place)
            intra, inter = _chosen(self.intra, chosen), _chosen(self.inter, chosen)
            result[chosen] = rule.cost_ns(topology, intra, inter, size_bytes[chosen])
        return np.asarray(result + self.overhead_ns)

    def scattered(
        self, costs_ns: NDArray[np.float64], random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Costs as single allreduces have them: each times a measured over a fitted time.

        The factor is that of one of the neighbours, 1 without any.
        """
        first, stop = self.neighbours(costs_ns)
        has_any = stop > first
        drawn = random.integers(first, np.maximum(stop, first + 1))
        factors = np.exp(self.log_residuals[drawn[has_any]])
        found = np.array(costs_ns, dtype=np.float64)
        found[has_any] *= factors
        return found

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


def _chosen(link: Link, places: NDArray[np.int64]) -> Link:
    """The values of some draws, [draws]."""
    return Link(*(_of_draws(values, places) for values in _values(link)))


def _rows(link: Link, places: NDArray[np.int64]) -> Link:
    """The values of some draws, [draws, 1]."""
    return Link(*(_of_draws(values, places)[:, np.newaxis] for values in _values(link)))


def _values(link: Link) -> tuple[Floats, Floats, Floats]:
    return link.alpha_ns, link.beta_ns_per_byte, link.burst_bytes


def _of_draws(values: Floats, places: NDArray[np.int64]) -> NDArray[np.float64]:
    known = np.asarray(values, dtype=np.float64)
    return known[places] if known.ndim else np.full(len(places), float(known))
