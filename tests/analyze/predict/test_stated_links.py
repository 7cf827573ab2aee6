"""Networks that were not measured."""

import numpy as np
import pytest

from hvdprof.analyze.predict.algorithm_rules import GLOO, OPEN_MPI_41
from hvdprof.analyze.predict.collective_cost import Link, Topology
from hvdprof.analyze.predict.cost_draws import CostDraws
from hvdprof.analyze.predict.link_text import StatedLink, parse_intra, parse_link
from hvdprof.analyze.predict.stated_links import (
    SCENARIOS,
    assumed_draws,
    drawn_link,
    with_intra,
    with_network,
    with_rule,
)

NUM = 20_000


def _random() -> np.random.Generator:
    return np.random.default_rng(5)


def _draws() -> CostDraws:
    return CostDraws(
        (GLOO,),
        np.zeros(NUM, dtype=np.int64),
        Link(np.full(NUM, 50e3), np.full(NUM, 0.5)),
        Link(np.full(NUM, 1.0), np.full(NUM, 1.0)),
        np.zeros(NUM),
        np.empty(0),
        np.empty(0),
    )


def test_a_stated_network_reaches_a_share_of_its_bandwidth() -> None:
    link = drawn_link(parse_link("25Gbit,15us"), _random(), NUM, between_hosts=True)
    shares = 1 / (3.125 * np.asarray(link.beta_ns_per_byte))
    assert shares.min() == pytest.approx(0.55, abs=0.01)
    assert shares.max() == pytest.approx(0.95, abs=0.01)
    assert np.median(np.asarray(link.alpha_ns)) == pytest.approx(15e3, rel=0.02)
    assert np.log(np.asarray(link.alpha_ns)).std() == pytest.approx(0.25, rel=0.05)


def test_an_assumed_latency_is_wider_than_a_stated_one() -> None:
    for link in (StatedLink("25Gbit", 3.125), SCENARIOS[2]):
        drawn = drawn_link(link, _random(), NUM, between_hosts=True)
        assert np.log(np.asarray(drawn.alpha_ns)).std() == pytest.approx(0.45, rel=0.05)
    assumed = drawn_link(StatedLink("25Gbit", 3.125), _random(), NUM, between_hosts=True)
    low, high = np.quantile(np.asarray(assumed.alpha_ns), [0.05, 0.95])
    assert 4e3 < low < 6e3
    assert 20e3 < high < 27e3


def test_measured_software_time_is_added_to_the_network() -> None:
    measured = with_network(_draws(), parse_link("100Gbit,10us"), _random(), intra_is_measured=True)
    assert np.median(np.asarray(measured.inter.alpha_ns)) == pytest.approx(60e3, rel=0.02)
    # Processors that move 2 GB/s inside a host do not move 12.5 GB/s over a network.
    assert np.asarray(measured.inter.beta_ns_per_byte).min() == 0.5
    assumed = with_network(_draws(), parse_link("100Gbit,10us"), _random(), intra_is_measured=False)
    assert np.median(np.asarray(assumed.inter.alpha_ns)) == pytest.approx(10e3, rel=0.02)
    assert np.asarray(assumed.inter.beta_ns_per_byte).max() < 0.5


def test_faster_scenarios_cost_less() -> None:
    costs = [
        np.median(
            with_network(_draws(), link, _random(), intra_is_measured=False).cost_ns(
                Topology(64, 8), 25e6
            )
        )
        for link in SCENARIOS
    ]
    # From 100 Gb/s on, shared memory limits the ring.
    assert costs[0] > 5 * costs[1] > 5 * costs[2]
    assert costs[2] > costs[3] >= costs[4]
    assert [link.bytes_per_ns * 8 for link in SCENARIOS] == [1, 10, 25, 100, 400]


@pytest.mark.heavy
def test_a_stated_link_inside_hosts_and_an_algorithm_replace_the_measured() -> None:
    inside = with_intra(_draws(), parse_intra("nvlink:300GB/s"), _random())
    assert np.median(np.asarray(inside.intra.alpha_ns)) == pytest.approx(3_400, rel=0.02)
    assert np.asarray(inside.intra.beta_ns_per_byte).min() == pytest.approx(1 / 300, rel=0.01)
    ruled = with_rule(inside, OPEN_MPI_41)
    found = ruled.cost_ns(Topology(8, 8), 1e6)[:, 0]
    assert found == pytest.approx(
        OPEN_MPI_41.cost_ns(Topology(8, 8), ruled.intra, ruled.inter, 1e6), rel=1e-9
    )


def test_without_any_measurement_draws_are_those_of_the_priors() -> None:
    draws = assumed_draws(GLOO, _random(), NUM)
    assert np.median(np.asarray(draws.inter.alpha_ns)) == pytest.approx(30e3, rel=0.05)
    assert np.log(np.asarray(draws.inter.beta_ns_per_byte)).std() == pytest.approx(2.0, rel=0.05)
    assert draws.cost_ns(Topology(4, 1), 1e6).shape == (NUM, 1)
