"""Which input the width of a band comes from: first-order Sobol indices by groups of draws.

With f the efficiency, A and B two independent sets of draws, and B_i the set B with the group i of
A (Saltelli et al., Computer Physics Communications 181, 2010):

    S_i = mean(f(A) * (f(B_i) - f(B))) / Var(f)

is the share of the variance that disappears, on average, once the input i is known. The shares of
independent inputs sum to 1 at most; estimates that exceed it are scaled down together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.draws import GROUPS, Draws
from hvdprof.model.arrays import Float64s


@dataclass(frozen=True, slots=True)
class WidthSource:
    """First-order index of an input, with its standard error."""

    first_order: float
    error: float


def width_sources(
    efficiency: Callable[[Draws], Float64s], first: Draws, second: Draws
) -> Mapping[str, WidthSource]:
    """The index of every input, by the names of ``model.forecast.INPUTS``.

    All are 0 where the efficiency does not vary.

    Args:
        efficiency: [draws] of a set of draws.
        first: A set of draws.
        second: As many others.
    """
    of_first, of_second = efficiency(first), efficiency(second)
    found = {}
    for name, group in GROUPS.items():
        mixed = efficiency(replace(second, **{group: getattr(first, group)}))
        found[name] = _index(of_first, of_second, mixed)
    whole = max(1.0, sum(source.first_order for source in found.values()))
    return {
        name: WidthSource(one.first_order / whole, one.error / whole) for name, one in found.items()
    }


def _index(first: Float64s, second: Float64s, mixed: Float64s) -> WidthSource:
    both = np.concatenate([first, second])
    variance = float(both.var())
    if not variance > 0:
        return WidthSource(0.0, 0.0)
    products = (first - both.mean()) * (mixed - second) / variance
    share = float(products.mean())
    error = float(products.std() / np.sqrt(len(products)))
    return WidthSource(min(max(share, 0.0), 1.0), error)
