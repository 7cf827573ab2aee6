"""Libraries' choices by number of ranks and payload, and their cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Link, Topology, cost_ns
from hvdprof.analyze.predict.costs.cost_draws import (
    GLOO,
    NCCL,
    OPEN_MPI_40,
    OPEN_MPI_41,
    RULES,
    Rule,
    always,
)

INTRA = Link(2_000.0, 0.1)
INTER = Link(15_000.0, 0.32)
SIZES = np.array([1.0, 100, 4_096, 9_000, 10_000, 1e5, 1e6, 1e8])


@pytest.mark.parametrize(
    ("rule", "ranks", "size", "algorithm"),
    [
        (GLOO, 2, 8, Algorithm.RING),
        (GLOO, 512, 64e6, Algorithm.RING),
        (OPEN_MPI_40, 8, 9_999, Algorithm.RECURSIVE_DOUBLING),
        (OPEN_MPI_40, 8, 10_000, Algorithm.RING),
        (OPEN_MPI_41, 2, 1_000, Algorithm.RECURSIVE_DOUBLING),
        (OPEN_MPI_41, 2, 100_000, Algorithm.RING),
        (OPEN_MPI_41, 2, 1e6, Algorithm.RABENSEIFNER),
        (OPEN_MPI_41, 4, 8_191, Algorithm.RECURSIVE_DOUBLING),
        (OPEN_MPI_41, 4, 8_192, Algorithm.RABENSEIFNER),
        (OPEN_MPI_41, 16, 4_096, Algorithm.RABENSEIFNER),
        (OPEN_MPI_41, 100, 200_000, Algorithm.RECURSIVE_DOUBLING),
        (OPEN_MPI_41, 512, 20_000, Algorithm.RABENSEIFNER),
        (OPEN_MPI_41, 10_000, 20_000, Algorithm.RECURSIVE_DOUBLING),
    ],
)
def test_a_rule_takes_the_algorithm_of_its_library(
    rule: Rule, ranks: int, size: float, algorithm: Algorithm
) -> None:
    topology = Topology(ranks, 4)
    expected = cost_ns(algorithm, topology, INTRA, INTER, size)
    assert rule.cost_ns(topology, INTRA, INTER, size) == expected


def test_nccl_takes_the_faster_of_ring_and_tree() -> None:
    topology = Topology(64, 8)
    ring = cost_ns(Algorithm.RING, topology, INTRA, INTER, SIZES)
    tree = cost_ns(Algorithm.TREE, topology, INTRA, INTER, SIZES)
    found = NCCL.cost_ns(topology, INTRA, INTER, SIZES)
    assert np.array_equal(found, np.minimum(ring, tree))
    assert found[0] == tree[0] < ring[0]
    assert found[-1] == ring[-1] < tree[-1]


@pytest.mark.heavy
@given(st.sampled_from(RULES), st.integers(2, 600), st.integers(1, 8))
def test_terms_and_cost_agree(rule: Rule, ranks: int, local: int) -> None:
    topology = Topology(ranks, local)
    costs = rule.cost_ns(topology, INTRA, INTER, SIZES)
    for size, cost in zip(SIZES, costs, strict=True):
        times = []
        for terms in rule.terms(topology, float(size)):
            inner = terms.intra_sizes * INTRA.beta_ns_per_byte
            outer = terms.inter_sizes * INTER.beta_ns_per_byte
            moved = np.maximum(inner, outer) if terms.is_pipelined else inner + outer
            latency = terms.intra_messages * 2_000 + terms.inter_messages * 15_000
            times.append(latency + moved * size)
        assert min(times) == pytest.approx(cost, rel=1e-12)


def test_sizes_and_draws_broadcast_through_a_switch() -> None:
    drawn = Link(np.array([[1e3], [5e3]]), 0.1)
    found = OPEN_MPI_41.cost_ns(Topology(8, 8), drawn, INTER, SIZES)
    assert found.shape == (2, len(SIZES))
    alone = OPEN_MPI_41.cost_ns(Topology(8, 8), Link(5e3, 0.1), INTER, SIZES)
    assert found[1] == pytest.approx(alone, rel=1e-12)


def test_a_rule_of_one_algorithm_has_its_name() -> None:
    assert always(Algorithm.TREE).name == "tree"
    assert len({rule.name for rule in RULES}) == len(RULES)
