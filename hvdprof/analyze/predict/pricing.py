"""The time of the collectives of one number of ranks, draw by draw.

Tested in ``tests/analyze/predict/test_predicted_step.py``.
"""

from dataclasses import fields, replace

import numpy as np

from hvdprof.analyze.predict.collective_cost import Link, Topology
from hvdprof.analyze.predict.cost_draws import CostDraws
from hvdprof.model.arrays import Float64s, Int64s

_NUM_TYPICAL = 5
"""So many observations at the typical time are added to the neighbours of a cost: few of them say
little on the mean."""

_LARGEST_FACTOR = 2.0
"""A mean far above the typical time comes from stalls, which are no property of the link."""


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
