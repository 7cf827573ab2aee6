"""Functions on a Ray cluster of two nodes, which share no folder: neither Ray's nor the run's."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hvdprof.api import load_run
from tests.builders.network_hosts import network_hosts
from tests.builders.places import ROOT
from tests.builders.user_function import BATCH, SAMPLES

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(900)]

RAY = [sys.executable, "-m", "ray.scripts.scripts"]
PORT = "6379"
# Given ports: Ray allows a node 30 s, in which it otherwise waits for its agents to choose theirs.
AGENTS = [
    f"--{name}-port={number}"
    for number, name in enumerate(
        ("dashboard-agent-grpc", "dashboard-agent-listen", "metrics-export", "runtime-env-agent"),
        start=7001,
    )
]


@pytest.mark.ran(
    "functions by `FunctionRunner` on Ray, of nodes without a common file system",
    "ray 2.60.0; Gloo",
    "two network namespaces of one host",
)
def test_ranks_are_placed_on_two_nodes_and_their_recordings_come_back(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install '.[ray]'")
    runs = tmp_path / "runs"
    with (
        # Ray's sockets allow paths of 107 characters.
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as of_ray,
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as of_other,
        network_hosts(tmp_path / "hosts") as hosts,
    ):
        (tmp_path / "elsewhere").mkdir()
        runs.mkdir()
        hosts.hide(hosts.names[1], runs, behind=tmp_path / "elsewhere")
        hosts.hide(hosts.names[1], Path(of_ray), behind=Path(of_other))
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

        def on(name: str, *program: str) -> "subprocess.CompletedProcess[str]":
            settings = (f"PYTHONPATH={path}", "RAY_AUTH_MODE=disabled", f"RAY_TMPDIR={of_ray}")
            command = hosts.command(name, "env", *settings, *program)
            return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)

        head = address_of(hosts.names[0])
        start = ["start", "--num-cpus=1", "--disable-usage-stats", *AGENTS]
        joined = [
            on(
                hosts.names[0],
                *RAY,
                *start,
                "--head",
                f"--port={PORT}",
                f"--temp-dir={of_ray}",
                f"--node-ip-address={head}",
                "--include-dashboard=false",
            ),
            on(hosts.names[1], *RAY, *start, f"--address={head}:{PORT}"),
        ]
        assert [one.returncode for one in joined] == [0, 0], [one.stderr for one in joined]
        driver = [sys.executable, "-m", "tests.builders.ray_nodes_driver", str(runs / "run")]
        ended = on(hosts.names[0], *driver)
        assert ended.returncode == 0, ended.stderr[-5000:]
        returned = json.loads(ended.stdout.splitlines()[-1])
    assert sorted(one["host"] for one in returned) == hosts.names
    steps = 2 * SAMPLES // 2 // BATCH
    numbers = [[one[key] for key in ("rank", "size", "steps", "local_rank")] for one in returned]
    assert numbers == [[0, 2, steps, 0], [1, 2, steps, 0]]
    run = load_run(runs / "run")
    measured = run.steps[run.steps["pass_id"].astype(str).str.contains("throughput")]
    assert sorted(measured["rank"].unique()) == [0, 1]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def address_of(name: str) -> str:
    """The address of a host, from its hosts file."""
    lines = (Path("/etc/netns") / name / "hosts").read_text().splitlines()
    (address,) = (line.split()[0] for line in lines if line.endswith(f" {name}"))
    return address
