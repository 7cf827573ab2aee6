"""The time of collectives with its uncertainty, draw by draw."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.costs.algorithm_rules import Rule
from hvdprof.analyze.predict.costs.collective_cost import Floats, Link, Topology
from hvdprof.model.arrays import Float64s, Int64s

_MOST_NEAR, _NEAR_FACTOR = 40, 2.0
"""Neighbours of a cost: at most so many, within this factor. Small allreduces scatter by factors
that large ones do not have, so the nearest by rank alone are none."""

_NUM_TYPICAL = 5
"""So many observations at the typical time are added to the neighbours of a cost: few of them say
little on the mean."""

_LARGEST_FACTOR = 2.0
"""A mean far above the typical time comes from stalls, which are no property of the link."""


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
        return self._with_mean_factor(self._typical(size_bytes))

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

    def _with_mean_factor(self, typical: Float64s) -> Float64s:
        """Times how much the mean of measured times exceeds the typical one, near each time."""
        first, stop = self._costs.neighbours(typical)
        near = self._sums[stop] - self._sums[first]
        factors = (near + _NUM_TYPICAL) / (stop - first + _NUM_TYPICAL)
        return np.asarray(typical * np.minimum(factors, _LARGEST_FACTOR))


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
