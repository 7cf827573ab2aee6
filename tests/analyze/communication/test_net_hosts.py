import math

import pytest

from hvdprof.analyze.communication.network import net_hosts, net_links
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.run_rules.network_rules import SLOW_SHARE, slow_host_link
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.tables.sample_tables import NET_LINKS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import run
from tests.builders.net_recording import net_recording, of_hosts


def hosts_of(recording):
    return net_hosts(net_links(net_transfers(recording)[0]))


def slow_ones(table):
    return list(table.loc[table["bandwidth_share_high"] < SLOW_SHARE, "host"])


def test_a_slow_link_shows_in_the_best_pair_of_its_host():
    table = hosts_of(of_hosts([1e8, 1e8, 2.5e7, 1e8]))
    assert table["host"].tolist() == ["h1", "h2", "h3", "h4"]
    assert table["num_pairs"].tolist() == [3, 3, 3, 3]
    # The others' pairs with h3 are slow too, which is not their fault.
    assert table["bandwidth_gb_per_s"].tolist() == pytest.approx([0.1, 0.1, 0.025, 0.1], rel=1e-2)
    assert table["bandwidth_share"].iloc[2] == pytest.approx(0.25, rel=1e-2)
    assert slow_ones(table) == ["h3"]


@pytest.mark.heavy
def test_two_slow_links_of_six_are_both_named():
    assert slow_ones(hosts_of(of_hosts([1e8, 2e7, 1e8, 1e8, 3e7, 1e8], noise=0.02))) == ["h2", "h5"]


def test_two_hosts_say_nothing_of_which_is_slow():
    assert hosts_of(net_recording()).empty
    assert net_hosts(NET_LINKS.empty()).empty


def test_a_slow_link_between_racks_names_no_host():
    recording = of_hosts([1e8] * 4)
    for record in recording.records:
        if (record["from"] < 2) != (record["to"] < 2):
            record["times_ns"] = [10 * time for time in record["times_ns"]]
    assert slow_ones(hosts_of(recording)) == []


def test_a_far_host_shows_in_its_latency_alone():
    table = hosts_of(of_hosts([1e9] * 4, delays_ns=[10_000, 10_000, 10_000, 900_000]))
    assert slow_ones(table) == []
    row = table[table["host"] == "h4"].iloc[0]
    assert row["latency_ratio_low"] > 10
    assert table.loc[table["host"] != "h4", "latency_ratio_high"].max() < 2


@pytest.mark.slow
def test_equal_links_are_hardly_ever_called_slow_however_noisy():
    wrong = sum(
        bool(slow_ones(hosts_of(of_hosts([1e8] * 5, noise=0.3, seed=seed)))) for seed in range(40)
    )
    assert wrong == 0


@pytest.mark.heavy
def test_half_the_bandwidth_is_found_in_spite_of_noise():
    found = [
        slow_ones(hosts_of(of_hosts([1e8, 1e8, 1e8, 5e7], noise=0.05, seed=seed)))
        for seed in range(10)
    ]
    assert found.count(["h4"]) >= 9


def pairs(*ends):
    """Links of three hosts, each with its bandwidth and the ends of its interval."""
    names = [("h1", "h2"), ("h1", "h3"), ("h2", "h3")]
    rows = [
        {
            "method": "tcp",
            "from_host": one,
            "to_host": other,
            "bandwidth_gb_per_s": value,
            "bandwidth_low_gb_per_s": low,
            "bandwidth_high_gb_per_s": high,
            "latency_ns": 20_000.0,
            "latency_low_ns": 19_000.0,
            "latency_high_ns": 21_000.0,
        }
        for (one, other), (value, low, high) in zip(names, ends, strict=True)
    ]
    return net_hosts(declared_rows(NET_LINKS, *rows))


def test_a_pair_whose_upper_end_is_not_known_may_be_as_quick_as_any():
    nan = float("nan")
    table = pairs((0.02, 0.01, nan), (0.015, 0.01, 0.02), (0.1, 0.09, 0.11)).set_index("host")
    assert table.loc["h1", "bandwidth_gb_per_s"] == 0.02
    assert math.isnan(table.loc["h1", "bandwidth_share_high"])
    assert slow_ones(table.reset_index()) == []


def test_a_pair_too_quick_to_be_timed_leaves_a_slow_host_with_an_upper_end_alone():
    nan = float("nan")
    table = pairs((nan, 0.09, nan), (0.02, 0.019, 0.021), (0.02, 0.019, 0.021))
    assert table["bandwidth_gb_per_s"].isna().tolist() == [True, True, False]
    assert slow_ones(table) == ["h3"]
    given = Evidence(run(), {"net_hosts": table})
    (found,) = slow_host_link(given)
    assert "over TCP, at most 23.3 % of what the other hosts have" in found.evidence
    assert found.evidence.startswith("The best of 2 pairs with h3")
