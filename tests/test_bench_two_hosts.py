"""The main job and scripts over two hosts: network namespaces, so nothing leaves this machine."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import Run
from tests.builders import ddp_script, user_script
from tests.builders.network_hosts import NetworkHosts, network_hosts

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.warm,
    pytest.mark.root,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkHosts]:
    with network_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def _hvdprof(hosts: NetworkHosts, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return hosts.hvdprof(*arguments, HVDPROF_CLOCK_EXCHANGE="always")


@pytest.mark.ran(
    "`hvdprof bench --hosts`",
    "Open MPI 4.1.8, over a stand-in for ssh",
    "two network namespaces of one host",
)
def test_bench_by_mpi(hosts: NetworkHosts, tmp_path: Path) -> None:
    done = _hvdprof(
        hosts,
        *("bench", "--hosts", hosts.argument, "--np", "2", "--controller", "mpi"),
        *("--models", "mnist", "--num-steps", "12", "--repeats", "1"),
        *("--quiet", "--output", str(tmp_path / "run"), "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(row["engine"], row["np"]) for row in result["scaling"]] == [("horovod", 2)]
    run = load_run(tmp_path / "run")
    assert {host["hostname"] for host in run.manifest.hosts} >= set(hosts.names)
    assert not analyze_run(run).failed
    _finds_its_own_clock_again(run)


@pytest.mark.ran(
    "`hvdprof run --hosts`",
    "Gloo, over a stand-in for ssh",
    "two network namespaces of one host",
)
def test_a_script_by_gloo(hosts: NetworkHosts, tmp_path: Path) -> None:
    done = _hvdprof(
        hosts,
        *("run", "--hosts", hosts.argument, "--np", "2", "--controller", "gloo", "--no-net"),
        *("--quiet", "--output", str(tmp_path / "run"), "--format", "json"),
        *("--", "python", user_script.__file__, "--epochs", "1"),
    )
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "run")
    assert {host["hostname"] for host in run.manifest.hosts} >= set(hosts.names)
    counted = run.steps[~run.steps["warmup"]].groupby(["pass_id", "rank"], observed=True).size()
    # 16 steps, 5 of them for warming up, in the pass for throughput and in that for the trace.
    assert counted.tolist() == [11] * 4
    _finds_its_own_clock_again(run)


@pytest.mark.ran(
    "`hvdprof run --launcher torchrun --hosts`, without a common file system",
    "torch 2.13 with Gloo, over a stand-in for ssh",
    "two network namespaces of one host",
)
def test_a_ddp_script_by_torchrun_on_hosts_that_share_no_files(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs, elsewhere):
        folder.mkdir()
    hosts.hide(hosts.names[1], runs, behind=elsewhere)
    done = _hvdprof(
        hosts,
        *("run", "--hosts", hosts.argument, "--no-net", "--quiet", "--output", str(runs / "run")),
        *("--", "torchrun", "--nnodes", "2", "--nproc-per-node", "1", ddp_script.__file__),
        *("--steps", "40", "--fault", "backward:rank=1:ms=25"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "straggler (rank 1, backward" in " ".join(done.stdout.split())
    run = load_run(runs / "run")
    assert {host["hostname"] for host in run.manifest.hosts} >= set(hosts.names)
    assert {segment.segment.engine for one in run.manifest.passes for segment in one.segments} == {
        "ddp"
    }
    assert run.steps.groupby(["pass_id", "rank"], observed=True).size().index.tolist() == [
        (record.id, rank) for record in run.manifest.passes for rank in range(2)
    ]
    # By the Flight Recorder of the trace pass, on the clock of rank 0.
    late = run.rank_collectives.groupby("rank").size()
    assert late.index.tolist() == [0, 1]
    errors = run.steps.groupby("rank")["clock_error_ns"].max()
    assert errors[0] == 0
    assert 0 < errors[1] < 20_000_000
    assert hosts.processes() == []


def _finds_its_own_clock_again(run: Run) -> None:
    """Forced over TCP, the exchange between two hosts of one kernel knows the second clock well."""
    two_ranks = run.steps[run.steps["pass_id"] == "01-np2-throughput-r1"]
    errors = two_ranks.groupby("rank")["clock_error_ns"].max()
    assert errors[0] == 0
    # What the fastest answer takes on a busy machine.
    assert 0 < errors[1] < 20_000_000
