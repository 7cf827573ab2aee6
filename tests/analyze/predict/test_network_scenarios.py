import numpy as np
import pytest

from hvdprof.analyze.predict.network_scenarios import KnownLinks, scenarios
from hvdprof.errors import UsageError
from hvdprof.model.forecast import MEASURED
from tests.builders.predicted_jobs import stated_costs


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
