"""Which algorithm a library uses at a number of ranks and a payload.

Sources: ``gloo/allreduce.cc``, whose default is a ring at every size; Open MPI's
``coll_tuned_decision_fixed.c`` of releases 4.1 and, until 4.0, of the years before; ``tuning.cc``
of NCCL, which estimates ring and tree for every call and takes the faster one.
"""

from dataclasses import dataclass

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

_ANY = 2**62


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
