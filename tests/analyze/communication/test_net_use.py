import numpy as np
import pytest

from hvdprof.analyze.communication.net_use import net_use
from hvdprof.analyze.communication.network import net_links
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS
from hvdprof.model.tables.sample_tables import NET_LINKS
from tests.builders.collectives import collective_row
from tests.builders.net_recording import net_recording
from tests.builders.traced_run import rank_row, segment_row

LINKS = net_links(net_transfers(net_recording())[0])
TWO_HOSTS = [rank_row(0, "h1"), rank_row(1, "h2")]


def executions(share, *, size=4_000_000, number=60, noise=0.05, factor=1.0):
    """Allreduces that take the time of the measured one (2 ms and 10 MB/s) by a share."""
    rng = np.random.default_rng(3)
    times = (2.0 + size / 1e4) / share * rng.lognormal(0, noise, number)
    return [
        collective_row(
            size, time, start_ns=place * 10**9, busbw_gb_per_s=factor * size / time / 1e6
        )
        for place, time in enumerate(times)
    ]


def use(rows, ranks=TWO_HOSTS, links=LINKS, **segment):
    return net_use(
        COLLECTIVES.frame(rows),
        SEGMENTS.frame([segment_row(**segment)]),
        RANKS.frame(ranks),
        links,
    )


@pytest.mark.parametrize("share", [0.3, 0.95])
def test_the_share_of_what_the_network_gives_is_found(share):
    (row,) = use(executions(share)).to_dict("records")
    assert (row["np"], row["num_hosts"], row["num_executions"]) == (2, 2, 60)
    assert row["share_low"] < row["share"] < row["share_high"]
    assert row["share"] == pytest.approx(share, rel=0.03)
    assert row["allowed_gb_per_s"] == pytest.approx(0.01, rel=0.01)
    assert row["busbw_gb_per_s"] == pytest.approx(share * 0.01, rel=0.03)
    assert row["reason"] == ""


def test_four_ranks_on_two_hosts_are_compared_by_what_a_ring_sends_over_a_link():
    # Of 4 ranks 2 * 3/4 of the payload passes a link, of 2 hosts 2 * 1/2.
    four = [rank_row(rank, f"h{1 + rank // 2}") for rank in range(4)]
    (row,) = use(executions(1 / 1.5, factor=1.5), four, size=4).to_dict("records")
    assert row["np"] == 4
    assert row["share"] == pytest.approx(1.0, rel=0.03)


@pytest.mark.slow
def test_the_interval_holds_as_often_as_it_says_where_neighbours_are_alike():
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        drift = np.zeros(200)
        for step in range(1, 200):
            drift[step] = 0.7 * drift[step - 1] + rng.normal(0, 0.05)
        times = 402.0 * np.exp(drift)
        rows = [
            collective_row(4_000_000, time, start_ns=place, busbw_gb_per_s=4 / time)
            for place, time in enumerate(times)
        ]
        row = use(rows).iloc[0]
        held += row["busbw_low_gb_per_s"] <= 4 / 402.0 <= row["busbw_high_gb_per_s"]
    assert held >= 88


def test_small_allreduces_are_excluded_with_a_note():
    (row,) = use(executions(0.5, size=40_000)).to_dict("records")
    assert np.isnan(row["share"])
    # 2 ms are a fifth of 10 ms, of which 8 ms carry 80 kB at 10 MB/s.
    assert row["reason"] == (
        "no allreduce carries 80.0 kB or more, and latency is more than a fifth of smaller ones"
    )
    (few,) = use(executions(0.5, number=3)).to_dict("records")
    assert few["reason"].startswith("only 3 allreduces carry 80.0 kB or more")


@pytest.mark.heavy
def test_ranks_on_other_hosts_than_those_measured_are_not_compared():
    assert use(executions(0.5), [rank_row(0, "h1"), rank_row(1, "h1")]).empty
    three = [*TWO_HOSTS, rank_row(2, "h3")]
    assert use(executions(0.5), three, size=3).empty
    assert use(executions(0.5), engine="ddp").empty


def test_without_a_measured_allreduce_there_is_nothing_to_compare():
    assert use(executions(0.5), links=NET_LINKS.empty()).empty
    assert use(executions(0.5), links=LINKS[LINKS["method"] != "allreduce"]).empty


def test_a_measured_allreduce_without_a_fit_gives_its_reason():
    no_fit = LINKS.assign(reason="only 3 different payloads")
    assert use(executions(0.5), links=no_fit)["reason"].item() == (
        "the measured allreduce has no fit: only 3 different payloads"
    )


def test_a_job_faster_than_what_was_measured_is_not_compared():
    (row,) = use(executions(3.0)).to_dict("records")
    assert row["reason"] == "the job's allreduces of 4.00 MB were faster than the measured one"
    assert np.isnan(row["share"])
    assert row["busbw_gb_per_s"] == pytest.approx(0.03, rel=0.03)


@pytest.mark.parametrize("end", ["low", "high"])
def test_an_open_end_of_the_measured_allreduce_is_no_comparison(end):
    open_end = LINKS.assign(**{f"beta_{end}_ns_per_mb": np.nan})
    (row,) = use(executions(0.5), links=open_end).to_dict("records")
    assert row["reason"] == (
        "the measured allreduce is too uncertain at 4.00 MB, the payload of the job's"
    )
    assert np.isnan(row["share"])
