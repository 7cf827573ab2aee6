"""Costs by hand, published bounds, and what must hold for every topology."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.predict.costs.collective_cost import (
    Algorithm,
    Link,
    Topology,
    cost_ns,
    cost_terms,
)

INTRA = Link(alpha_ns=2_000.0, beta_ns_per_byte=0.1)
INTER = Link(alpha_ns=15_000.0, beta_ns_per_byte=0.32)
SIZE = 10e6

ALLREDUCES = [one for one in Algorithm if one is not Algorithm.PARAMETER_SERVER]

TOPOLOGIES = st.builds(Topology, st.integers(2, 600), st.integers(1, 16))
ALGORITHMS = st.sampled_from(list(Algorithm))


def _cost(algorithm: Algorithm, ranks: int, local: int, size: float = SIZE) -> float:
    return float(cost_ns(algorithm, Topology(ranks, local), INTRA, INTER, size))


@pytest.mark.parametrize(
    ("algorithm", "ranks", "local", "expected"),
    [
        # 2 (8-1) hops, of which 2 (2-1) between the hosts; 2 * 7/8 of the payload on the network.
        (Algorithm.RING, 8, 4, 12 * 2_000 + 2 * 15_000 + 1.75 * SIZE * 0.32),
        (Algorithm.RING, 4, 4, 6 * 2_000 + 1.5 * SIZE * 0.1),
        (Algorithm.RING, 4, 1, 6 * 15_000 + 1.5 * SIZE * 0.32),
        # Rounds at distance 1 and 2 in the host; at distance 4 four ranks share its network.
        (
            Algorithm.RECURSIVE_DOUBLING,
            8,
            4,
            2 * (2_000 + SIZE * 0.1) + 15_000 + 4 * SIZE * 0.32,
        ),
        (Algorithm.RECURSIVE_DOUBLING, 8, 1, 3 * (15_000 + SIZE * 0.32)),
        # 5 ranks: one is folded into its neighbour and receives the result, then two rounds.
        (Algorithm.RECURSIVE_DOUBLING, 5, 8, 2 * (2_000 + SIZE * 0.1) + 2 * (2_000 + SIZE * 0.1)),
        # Halves, quarters in the host, eighths of four ranks between hosts; all of it twice.
        (
            Algorithm.RABENSEIFNER,
            8,
            4,
            4 * 2_000 + 2 * 15_000 + 1.5 * SIZE * 0.1 + 2 * 4 / 8 * SIZE * 0.32,
        ),
        (Algorithm.RABENSEIFNER, 8, 1, 6 * 15_000 + 1.75 * SIZE * 0.32),
        (Algorithm.RABENSEIFNER, 3, 1, 5 * 15_000 + 3 * SIZE * 0.32),
        (Algorithm.TREE, 32, 8, 2 * 2 * 15_000 + 14 * 2_000 + 2 * SIZE * 0.32),
        (Algorithm.TREE, 8, 8, 14 * 2_000 + 2 * SIZE * 0.1),
        (
            Algorithm.HIERARCHICAL,
            8,
            4,
            6 * 2_000 + 2 * 15_000 + 1.5 * SIZE * 0.1 + 1.0 * SIZE * 0.32,
        ),
        (Algorithm.PARAMETER_SERVER, 8, 4, 2 * 15_000 + 16 * SIZE * 0.32),
    ],
)
def test_the_cost_is_that_of_the_formula_by_hand(
    algorithm: Algorithm, ranks: int, local: int, expected: float
) -> None:
    assert _cost(algorithm, ranks, local) == pytest.approx(expected, rel=1e-12)


def test_shards_of_a_parameter_server_share_the_load_up_to_the_network_of_a_host() -> None:
    costs = [
        float(cost_ns(Algorithm.PARAMETER_SERVER, Topology(16, 4, servers), INTRA, INTER, SIZE))
        for servers in (1, 2, 4, 16)
    ]
    assert costs == pytest.approx(
        [30_000 + 2 * most * SIZE * 0.32 for most in (16, 8, 4, 4)], rel=1e-12
    )


def test_nccl_tests_bus_bandwidth_is_that_of_a_ring_without_latency() -> None:
    # PERFORMANCE.md of nccl-tests: 17179869184 B in 61974 us on 8 ranks are 485.119 GB/s.
    link = Link(0.0, 1 / 485.119099)
    found = cost_ns(Algorithm.RING, Topology(8, 8), link, link, 17179869184)
    assert float(found) == pytest.approx(61_974e3, rel=1e-5)


def test_a_rank_at_a_time_costs_nothing_without_a_server() -> None:
    for algorithm in ALLREDUCES:
        assert _cost(algorithm, 1, 8) == 0
    assert _cost(Algorithm.PARAMETER_SERVER, 1, 8) == pytest.approx(30_000 + 2 * SIZE * 0.32)


def test_the_two_links_do_not_matter_where_they_are_not_used() -> None:
    unknown = Link(float("nan"), float("nan"))
    for algorithm in ALLREDUCES:
        one_host = cost_ns(algorithm, Topology(8, 8), INTRA, unknown, SIZE)
        one_rank_per_host = cost_ns(algorithm, Topology(8, 1), unknown, INTER, SIZE)
        assert np.isfinite(one_host)
        assert np.isfinite(one_rank_per_host)


def test_draws_and_sizes_broadcast() -> None:
    sizes = np.array([1e3, 1e6, 1e8])
    alphas, betas = np.array([1e3, 2e3]), np.array([0.1, 0.4])
    drawn = Link(alphas[:, np.newaxis], betas[:, np.newaxis])
    found = cost_ns(Algorithm.RING, Topology(4, 2), drawn, INTER, sizes)
    assert found.shape == (2, 3)
    for draw in range(2):
        for place, size in enumerate(sizes):
            one = Link(float(alphas[draw]), float(betas[draw]))
            alone = cost_ns(Algorithm.RING, Topology(4, 2), one, INTER, float(size))
            assert found[draw, place] == pytest.approx(float(alone), rel=1e-12)


def test_a_topology_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Topology(0, 1)


@pytest.mark.heavy
@given(ALGORITHMS, TOPOLOGIES, st.floats(1, 1e9), st.floats(1.01, 100))
def test_more_bytes_take_longer(
    algorithm: Algorithm, topology: Topology, size: float, factor: float
) -> None:
    smaller = cost_ns(algorithm, topology, INTRA, INTER, size)
    assert cost_ns(algorithm, topology, INTRA, INTER, size * factor) > smaller


@given(
    st.sampled_from([Algorithm.RING, Algorithm.TREE, Algorithm.HIERARCHICAL]),
    st.integers(1, 64),
    st.integers(1, 8),
    st.floats(0, 1e9),
)
def test_more_full_hosts_take_no_less_time(
    algorithm: Algorithm, hosts: int, local: int, size: float
) -> None:
    fewer = cost_ns(algorithm, Topology(hosts * local, local), INTRA, INTER, size)
    more = cost_ns(algorithm, Topology((hosts + 1) * local, local), INTRA, INTER, size)
    assert more >= fewer * (1 - 1e-12)


@given(st.sampled_from(ALLREDUCES), st.integers(1, 8), st.integers(1, 4))
def test_powers_of_two_double_without_becoming_faster(
    algorithm: Algorithm, log_ranks: int, log_local: int
) -> None:
    smaller = _cost(algorithm, 1 << log_ranks, 1 << log_local)
    assert _cost(algorithm, 2 << log_ranks, 1 << log_local) >= smaller


@given(st.sampled_from(ALLREDUCES), TOPOLOGIES)
def test_no_algorithm_beats_the_bounds(algorithm: Algorithm, topology: Topology) -> None:
    """Latency ``ceil(log2 N)``, bandwidth ``2 (N-1)/N`` over equal links (Patarasuk and Yuan)."""
    ranks = topology.num_ranks
    alpha = cost_ns(algorithm, topology, Link(1.0, 0.0), Link(1.0, 0.0), 0.0)
    beta = cost_ns(algorithm, topology, Link(0.0, 1.0), Link(0.0, 1.0), 1.0)
    assert beta >= 2 * (ranks - 1) / ranks - 1e-9
    assert alpha >= np.ceil(np.log2(ranks))


@given(TOPOLOGIES)
def test_a_network_moves_all_but_a_hosts_own_part_of_the_payload(topology: Topology) -> None:
    """A host sends ``(h-1)/h`` of the payload away and receives as much, twice."""
    hosts = topology.num_hosts
    for algorithm in ALLREDUCES:
        terms = cost_terms(algorithm, topology)
        if topology.num_ranks % topology.ranks_per_host == 0:
            assert terms.inter_sizes >= 2 * (hosts - 1) / hosts - 1e-9 or hosts == 1


@given(st.integers(1, 64), st.floats(1, 1e9))
def test_with_one_rank_per_host_a_hierarchical_ring_is_the_flat_ring(
    hosts: int, size: float
) -> None:
    topology = Topology(hosts, 1)
    flat = cost_ns(Algorithm.RING, topology, INTRA, INTER, size)
    layered = cost_ns(Algorithm.HIERARCHICAL, topology, INTRA, INTER, size)
    assert layered == pytest.approx(flat, rel=1e-12)


def test_the_first_bytes_of_a_burst_take_no_time() -> None:
    burst = Link(15_000.0, 0.32, burst_bytes=100e3)
    # Two hosts with one rank each send the payload once.
    small = cost_ns(Algorithm.RING, Topology(2, 1), INTRA, burst, 80e3)
    large = cost_ns(Algorithm.RING, Topology(2, 1), INTRA, burst, 1.1e6)
    assert float(small) == 2 * 15_000
    assert float(large) == pytest.approx(2 * 15_000 + 1e6 * 0.32)
