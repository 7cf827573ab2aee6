"""The main job and a script over two hosts: network namespaces, so nothing leaves this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from tests.builders import user_script

CLUSTER = Path(__file__).parents[2] / "shared" / "tools" / "netns_cluster.sh"

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(600)]


def _cluster(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", str(CLUSTER), *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    if not CLUSTER.exists():
        pytest.skip(f"{CLUSTER.name}, which makes hosts of network namespaces, is not here")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    up = _cluster("up", "2")
    if up.returncode != 0:
        pytest.skip(f"this kernel gives no network namespaces: {up.stderr.strip()[-200:]}")
    yield _cluster("list").stdout.strip()
    _cluster("down")


def _hvdprof(*arguments: str) -> "subprocess.CompletedProcess[str]":
    stand_in_for_ssh = _cluster("path").stdout.strip()
    path = os.pathsep.join([stand_in_for_ssh, str(Path(sys.executable).parent), os.environ["PATH"]])
    return _cluster(
        *("exec", "hv1", "env", f"PATH={path}"),
        *("HVDPROF_CLOCK_EXCHANGE=always", "OMPI_MCA_btl_tcp_if_include=eth0"),
        *(sys.executable, "-m", "hvdprof", *arguments),
    )


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_two_hosts(hosts: str, controller: str, tmp_path: Path) -> None:
    done = _hvdprof(
        *("bench", "--hosts", hosts, "--np", "2"),
        *("--models", "mnist", "--num-steps", "12", "--repeats", "1", "--controller", controller),
        *("--quiet", "--output", str(tmp_path / "run"), "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(row["engine"], row["np"]) for row in result["scaling"]] == [("horovod", 2)]
    run = load_run(tmp_path / "run")
    assert {host["hostname"] for host in run.manifest.hosts} >= {"hv1", "hv2"}
    assert not analyze_run(run).failed
    two_ranks = run.steps[run.steps["pass_id"] == "01-np2-throughput-r1"]
    errors = two_ranks.groupby("rank")["clock_error_ns"].max()
    assert errors[0] == 0
    # Forced over TCP, the exchange between two hosts of one kernel must find its own clock again.
    assert 0 < errors[1] < 5_000_000


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_a_script_on_two_hosts(hosts: str, controller: str, tmp_path: Path) -> None:
    done = _hvdprof(
        *("run", "--hosts", hosts, "--np", "2", "--controller", controller, "--quiet"),
        *("--output", str(tmp_path / "run"), "--format", "json"),
        *("--", "python", user_script.__file__, "--epochs", "1"),
    )
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "run")
    assert {host["hostname"] for host in run.manifest.hosts} >= {"hv1", "hv2"}
    counted = run.steps[~run.steps["warmup"]].groupby(["pass_id", "rank"], observed=True).size()
    # 16 steps, 5 of them for warming up, in the pass for throughput and in that for the trace.
    assert counted.tolist() == [11] * 4
