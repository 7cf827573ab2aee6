"""`hvdprof net` between hosts made of network namespaces, with links of known rate."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import load_run
from tests.builders.network_hosts import NetworkHosts, network_hosts

MBIT = 1e6 / 8 / 1e9
"""A million bits a second in GB/s."""

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.warm,
    pytest.mark.root,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkHosts]:
    with network_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def _net(hosts: NetworkHosts, folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    done = hosts.hvdprof(
        *("net", "--hosts", hosts.argument, "--output", str(folder), "--quiet"),
        *("--format", "json", "--seconds", "0.2", *options),
    )
    assert done.returncode == 0, done.stderr
    return {row["method"]: row for row in json.loads(done.stdout)["net_links"]}


def _may_be(row: dict[str, Any], least: float, most: float) -> bool:
    """Whether the interval of a bandwidth, which waits for busy cores widen, reaches a range."""
    low, high = row["bandwidth_low_gb_per_s"], row["bandwidth_high_gb_per_s"]
    return bool(low <= most and (high is None or high >= least))


@pytest.mark.ran(
    "`hvdprof net`",
    "Gloo, Open MPI 4.1.8",
    "two network namespaces of one host with a limited rate",
)
@pytest.mark.timing
@pytest.mark.parametrize(("controller", "rate"), [("gloo", 40), ("mpi", 200)])
def test_the_limit_of_a_link_is_found(
    hosts: NetworkHosts, controller: str, rate: int, tmp_path: Path
) -> None:
    hosts.limit(f"{rate}mbit")
    links = _net(
        hosts, tmp_path / "run", "--controller", controller, "--sizes", "1k,32k,128k,512k,1M"
    )
    assert set(links) == {"tcp", "broadcast", "allreduce"}
    assert {links["tcp"]["from_host"], links["tcp"]["to_host"]} == set(hosts.names)
    # TCP's headers take 4 %, and what the limiter lets through at once makes it a little faster.
    assert 0.80 * rate * MBIT <= links["tcp"]["bandwidth_gb_per_s"] <= 1.15 * rate * MBIT
    assert _may_be(links["broadcast"], 0.3 * rate * MBIT, 1.15 * rate * MBIT)
    # Two ranks send each other as much as the payload, at the same time, in the best case.
    assert _may_be(links["allreduce"], 0.2 * rate * MBIT, 2.3 * rate * MBIT)
    for row in links.values():
        assert row["reason"] == ""
        assert row["bandwidth_low_gb_per_s"] <= row["bandwidth_gb_per_s"]
        assert row["latency_ns"] > 0
    again = hosts.hvdprof("net", str(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert f"{hosts.names[1]} - {hosts.names[0]}" in again.stdout
    manifest = load_run(tmp_path / "run").manifest
    assert {host["hostname"] for host in manifest.hosts} == set(hosts.names)
    assert manifest.hosts[0]["versions"]["horovod"] == manifest.versions["horovod"]


def test_a_host_that_cannot_be_reached_is_named(hosts: NetworkHosts, tmp_path: Path) -> None:
    hosts.unreachable(hosts.names[1])
    done = hosts.hvdprof("net", "--hosts", hosts.argument, "--output", str(tmp_path / "run"))
    (hosts.folder / f"{hosts.names[1]}.unreachable").unlink()
    assert done.returncode == 5
    assert f"{hosts.names[1]} cannot be reached" in done.stderr
    # Nothing is in the folder that could be gone on with.
    assert not (tmp_path / "run").exists()


@pytest.mark.ran(
    "`hvdprof net` of three hosts",
    "Gloo",
    "three network namespaces of one host",
)
def test_every_pair_of_three_hosts(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with network_hosts(tmp_path_factory.mktemp("three"), 3) as three:
        done = three.hvdprof(
            *("net", "--hosts", three.argument, "--output", str(tmp_path / "run"), "--quiet"),
            *("--controller", "gloo", "--sizes", "1k,4k,16k,64k", "--seconds", "0.05"),
            *("--format", "json"),
        )
        names = three.names
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["net_links"]
    pairs = [sorted(pair) for pair in itertools.combinations(names, 2)]
    for method in ("tcp", "broadcast"):
        of_method = [row for row in rows if row["method"] == method]
        assert sorted(sorted((row["from_host"], row["to_host"])) for row in of_method) == pairs
    (everybody,) = [row for row in rows if row["method"] == "allreduce"]
    assert everybody["np"] == 3
