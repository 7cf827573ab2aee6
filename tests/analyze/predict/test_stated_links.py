"""Networks that were not measured.

Texts of --link and --intra to numbers, and what is refused.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.predict.costs.collective_cost import Link, Topology
from hvdprof.analyze.predict.costs.cost_draws import GLOO, OPEN_MPI_41, CostDraws
from hvdprof.analyze.predict.costs.stated_links import (
    SCENARIOS,
    KnownLinks,
    StatedLink,
    assumed_draws,
    drawn_link,
    parse_intra,
    parse_link,
    scenarios,
    with_intra,
    with_network,
    with_rule,
)
from hvdprof.errors import UsageError
from hvdprof.model.results.forecast import MEASURED
from tests.builders.predicted_jobs import stated_costs

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


@pytest.mark.parametrize(
    ("text", "bytes_per_ns", "latency_ns"),
    [
        ("25Gbit,15us", 3.125, 15_000.0),
        ("25Gb/s", 3.125, None),
        (" 25 Gbps , 15 us ", 3.125, 15_000.0),
        ("100Gbit/s,1.5us", 12.5, 1_500.0),
        ("3GB/s,0.02ms", 3.0, 20_000.0),
        ("400Gb,900ns", 50.0, 900.0),
        ("200Mbit,5 µs", 0.025, 5_000.0),
        ("0.5TB/s", 500.0, None),
        ("1Gbit,1s", 0.125, 1e9),
        ("12500000B/s", 0.0125, None),
        ("64kbit", 8e-6, None),
    ],
)
def test_a_link_is_a_bandwidth_and_perhaps_a_latency(
    text: str, bytes_per_ns: float, latency_ns: float | None
) -> None:
    found = parse_link(text)
    assert found.bytes_per_ns == pytest.approx(bytes_per_ns)
    assert found.latency_ns == (None if latency_ns is None else pytest.approx(latency_ns))
    assert found.text == text.strip()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no bandwidth"),
        ("fast", "no bandwidth"),
        ("25", "no bandwidth"),
        ("25G", "no bandwidth"),
        ("3GB", "no bandwidth"),
        ("0Gbit", "no bandwidth"),
        ("-1Gbit", "no bandwidth"),
        ("1.2.3Gbit", "no bandwidth"),
        ("infGbit", "no bandwidth"),
        ("15us,25Gbit", "no bandwidth"),
        ("25Gbit,", "no latency"),
        ("25Gbit,fast", "no latency"),
        ("25Gbit,0us", "no latency"),
        ("25Gbit,15us,3", "no latency"),
    ],
)
def test_a_link_of_another_form_says_what_is_missing(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        parse_link(text)
    assert "--link" in caught.value.message
    assert "25Gbit,15us" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "bytes_per_ns", "latency_ns"),
    [
        ("shm", 5.0, 5_000.0),
        ("SHM:8GB/s", 8.0, 5_000.0),
        ("pcie", 12.0, 5_700.0),
        ("nvlink:300GB/s", 300.0, 3_400.0),
        ("nvlink:300GB/s,2us", 300.0, 2_000.0),
        ("nvlink:2400Gbit", 300.0, 3_400.0),
    ],
)
def test_a_kind_fills_in_what_the_text_leaves_out(
    text: str, bytes_per_ns: float, latency_ns: float
) -> None:
    assert parse_intra(text) == StatedLink(text, bytes_per_ns, latency_ns)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cable", "names no link"),
        ("25Gbit", "names no link"),
        ("nvlink", "needs a bandwidth"),
        ("nvlink:", "no bandwidth"),
        ("shm:fast", "no bandwidth"),
        ("pcie:12GB/s,soon", "no latency"),
    ],
)
def test_an_intra_link_of_another_form_says_what_is_missing(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        parse_intra(text)
    assert "--intra" in caught.value.message
    assert "nvlink:300GB/s" in caught.value.hint


@given(st.floats(1e-3, 1e4), st.floats(1e-2, 1e4))
def test_numbers_come_back(gigabits: float, microseconds: float) -> None:
    found = parse_link(f"{gigabits:.6f}Gbit,{microseconds:.6f}us")
    assert found.bytes_per_ns == pytest.approx(gigabits / 8, rel=1e-2)
    assert found.latency_ns == pytest.approx(microseconds * 1e3, rel=1e-2)


def test_a_run_on_one_host_has_a_band_per_stated_speed() -> None:
    found = scenarios((), "", KnownLinks(intra=True), is_one_host=False)

    assert [one.name for one in found] == ["1Gbit", "10Gbit", "25Gbit", "100Gbit", "400Gbit"]


@pytest.mark.parametrize(
    ("known", "is_one_host"), [(KnownLinks(True, True), False), (KnownLinks(True), True)]
)
def test_measured_links_are_one_scenario(known: KnownLinks, is_one_host: bool) -> None:
    (found,) = scenarios((), "", known, is_one_host=is_one_host)
    costs = stated_costs()

    assert found.name == MEASURED
    assert found(costs, np.random.default_rng(0)) is costs


def test_stated_links_replace_measured_ones() -> None:
    known = KnownLinks(True, True)

    first, second = scenarios(("25Gbit,15us", "100Gbit"), "", known, is_one_host=False)
    costs = first(stated_costs(), np.random.default_rng(0))

    assert (first.name, second.name) == ("25Gbit,15us", "100Gbit")
    # A job reaches 55 to 95 % of 3.125 bytes per ns.
    beta = np.asarray(costs.inter.beta_ns_per_byte)
    assert 1 / (3.125 * 0.95) <= beta.min() < beta.max() <= 1 / (3.125 * 0.55)


def test_a_stated_link_inside_the_host() -> None:
    (found,) = scenarios((), "nvlink:300GB/s", KnownLinks(True), is_one_host=True)

    costs = found(stated_costs(), np.random.default_rng(0))

    assert np.asarray(costs.intra.beta_ns_per_byte).max() < 0.02


@pytest.mark.parametrize(("links", "intra"), [(("fast",), ""), ((), "wire")])
def test_links_that_cannot_be_parsed(links: tuple[str, ...], intra: str) -> None:
    with pytest.raises(UsageError, match=r"has no bandwidth|names no link"):
        scenarios(links, intra, KnownLinks(), is_one_host=False)
