import numpy as np
import pytest

from hvdprof.analyze.communication.network import net_links
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.tables.sample_tables import NET_TRANSFERS
from tests.builders.net_recording import link, net_recording
from tests.builders.run_directory import write_run


def _links(**changes):
    return net_links(net_transfers(net_recording(**changes))[0])


def test_latency_and_bandwidth_of_each_link_are_found():
    links = _links()
    assert links["method"].tolist() == ["tcp", "broadcast", "allreduce"]
    assert links["bandwidth_gb_per_s"].tolist() == pytest.approx([0.025, 0.020, 0.010], rel=1e-3)
    assert links["alpha_ns"].tolist() == pytest.approx([50_000, 1_000_000, 2_000_000], rel=0.05)
    assert links["latency_ns"].iloc[0] == pytest.approx(50_000 + 1024 * 40, rel=0.01)
    assert (links["bandwidth_low_gb_per_s"] <= links["bandwidth_gb_per_s"]).all()
    assert (links["bandwidth_gb_per_s"] <= links["bandwidth_high_gb_per_s"]).all()
    assert (links["latency_low_ns"] < links["latency_ns"]).all()
    assert (links["latency_ns"] < links["latency_high_ns"]).all()
    assert links["num_messages"].tolist() == [45, 45, 45]


def test_single_stalled_messages_move_nothing():
    records = link("tcp", alpha_ns=50_000, bytes_per_s=25e6, ends=(1, 0))
    for record in records:
        record["times_ns"][0] += 400_000_000
    links = _links(records=records)
    assert links["bandwidth_gb_per_s"].item() == pytest.approx(0.025, rel=1e-2)
    assert links["latency_ns"].item() == pytest.approx(50_000 + 1024 * 40, rel=0.05)


@pytest.mark.slow
def test_the_interval_of_the_median_holds_as_often_as_it_says():
    random = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        times = random.exponential(1e6, 20).round().astype(int)
        records = [{"what": "tcp", "from": 1, "to": 0, "size_bytes": 8, "times_ns": times.tolist()}]
        row = _links(records=records).iloc[0]
        held += row["latency_low_ns"] <= 1e6 * np.log(2) <= row["latency_high_ns"]
    # Of 20 values the interval of order statistics holds in 95.9 % of all cases.
    assert 0.93 <= held / 400 <= 0.985


def test_too_few_sizes_have_a_latency_and_a_reason():
    records = link("tcp", alpha_ns=50_000, bytes_per_s=25e6, ends=(1, 0), rounds=3)[:3]
    row = _links(records=records).iloc[0]
    assert row["reason"] == "only 3 different payloads"
    assert np.isnan(row["bandwidth_gb_per_s"])
    assert row["latency_ns"] > 0
    assert np.isnan(row["latency_low_ns"])


def _sentence(folder, recording):
    write_run(folder, [])
    recording.write(folder)
    return analyze_run(load_run(folder)).verdict.sentence


@pytest.mark.slow
def test_a_run_of_the_network_alone_names_its_slowest_pair(tmp_path):
    assert _sentence(tmp_path / "two", net_recording()) == (
        "The pair of hosts over TCP is h2 - h1: 25.0 MB/s (25.0 to 25.0), 91.0 µs for the "
        "smallest message."
    )
    slow = link("tcp", alpha_ns=90_000, bytes_per_s=5e6, ends=(2, 1))
    recording = net_recording(hosts=["h1", "h2", "h3"], records=[*net_recording().records, *slow])
    assert _sentence(tmp_path / "three", recording).startswith(
        "The slowest pair of hosts over TCP is h3 - h2: 5.00 MB/s ("
    )
    few = net_recording(records=slow[:2], hosts=["h1", "h2", "h3"])
    assert "no pair of hosts has a fit" in _sentence(tmp_path / "few", few)


def test_no_measurement_no_links():
    assert net_links(NET_TRANSFERS.empty()).empty
