"""Several hosts: asked before the start, without common files, lost in the middle.

Hosts are network namespaces of this machine.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import hvdprof
from hvdprof.api import analyze_run, load_run
from hvdprof.errors import EnvironmentNotReadyError, SweepIncompleteError
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import user_script
from tests.builders.network_hosts import NetworkHosts, network_hosts
from tests.builders.running_command import pids_in_step, wait_for

PACKAGE = Path(hvdprof.__file__).parent

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkHosts]:
    with network_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def _run(hosts: NetworkHosts, folder: Path, *options: str) -> "tuple[int, str]":
    done = hosts.hvdprof(
        *("run", "--hosts", hosts.argument, "--np", "2", "--quiet", "--no-trace"),
        *("--output", str(folder), *options),
        *("--", "python", user_script.__file__, "--epochs", "1"),
    )
    return done.returncode, done.stderr


@pytest.mark.warm
def test_a_host_that_cannot_be_reached_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    hosts.unreachable(hosts.names[1])
    code, stderr = _run(hosts, tmp_path / "run")
    assert code == EnvironmentNotReadyError.exit_code
    assert stderr.startswith(f"hvdprof: {hosts.names[1]} cannot be reached: ssh: connect to host")
    assert not (tmp_path / "run" / "passes").exists()


@pytest.mark.warm
def test_a_host_without_hvdprof_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    hosts.hide(hosts.names[1], PACKAGE, behind=empty)
    code, stderr = _run(hosts, tmp_path / "run")
    assert code == EnvironmentNotReadyError.exit_code
    assert stderr.startswith(f"hvdprof: {hosts.names[1]} has no hvdprof in ")
    assert not (tmp_path / "run" / "passes").exists()


@pytest.mark.ran(
    "a host with another version, without hvdprof, or out of reach",
    "Gloo, over a stand-in for ssh",
    "two network namespaces of one host",
)
@pytest.mark.warm
def test_a_host_with_another_version_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    of_package = PACKAGE / "__init__.py"
    other = tmp_path / "__init__.py"
    other.write_text(of_package.read_text().replace(hvdprof.__version__, "0.0.7"))
    hosts.hide(hosts.names[1], of_package, behind=other)
    code, stderr = _run(hosts, tmp_path / "run")
    first, second = hosts.names
    assert code == EnvironmentNotReadyError.exit_code
    assert stderr.startswith(
        f"hvdprof: hvdprof is not the same on all hosts: {hvdprof.__version__} on {first}; "
        f"0.0.7 on {second}."
    )
    assert not (tmp_path / "run" / "passes").exists()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "planned"


def _measured_apart(
    hosts: NetworkHosts, tmp_path: Path, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """Measure with a second host that has another folder where the first has its runs."""
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs, elsewhere):
        folder.mkdir()
    hosts.hide(hosts.names[1], runs, behind=elsewhere)
    options = ("--hosts", hosts.argument, "--np", "2", "--no-net", "--quiet")
    return hosts.hvdprof(arguments[0], *options, "--output", str(runs / "run"), *arguments[1:])


@pytest.mark.warm
def test_files_of_hosts_that_share_none_come_back(hosts: NetworkHosts, tmp_path: Path) -> None:
    done = _measured_apart(
        *(hosts, tmp_path, "bench", "--models", "mnist", "--num-steps", "12"),
        # Each host counts the cores of this machine as its own: threads of ranks would share them.
        *("--repeats", "1", "--controller", "gloo", "--num-threads", "1", "--batch-size", "2"),
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "run"
    run = load_run(folder)
    counted = run.steps[~run.steps["warmup"]].groupby(["pass_id", "rank"], observed=True).size()
    assert counted.tolist() == [12] * len(run.manifest.passes) * 2
    assert not analyze_run(run).failed
    shares = {host["hostname"]: host["shares_folder"] for host in run.manifest.hosts}
    assert shares == {hosts.names[0]: True, hosts.names[1]: False}
    first = RunPaths(folder).of_pass(run.manifest.passes[0].id)
    away = tmp_path / "elsewhere" / first.recorder_file(1).relative_to(tmp_path / "runs")
    assert away.read_bytes() == first.recorder_file(1).read_bytes()
    assert not away.with_name(first.recorder_file(0).name).exists()

    # As if the second host had not been reached at the end: going on fetches, and measures nothing.
    manifest = Manifest.read(folder)
    manifest.status = Status.FAILED
    manifest.passes[0].left_behind = [hosts.names[1]]
    manifest.passes[0].status = Status.FAILED
    for segment in manifest.passes[0].segments:
        segment.status = Status.FAILED
    manifest.write(RunPaths(folder))
    first.recorder_file(1).unlink()
    resumed = hosts.hvdprof("bench", "--resume", str(folder), "--quiet", "--no-net")
    assert resumed.returncode == 0, resumed.stderr
    assert first.recorder_file(1).read_bytes() == away.read_bytes()
    again = Manifest.read(folder)
    assert (again.status, again.passes[0].left_behind) == (Status.DONE, [])
    assert [record.id for record in again.passes] == [one.id for one in manifest.passes]


@pytest.mark.ran(
    "`hvdprof run --hosts` without a common file system",
    "Open MPI 4.1.8, over a stand-in for ssh",
    "two network namespaces of one host",
)
@pytest.mark.warm
def test_a_script_on_hosts_that_share_no_files(hosts: NetworkHosts, tmp_path: Path) -> None:
    script = ("--", "python", user_script.__file__, "--epochs", "1")
    options = ("--controller", "mpi", "--no-trace")
    done = _measured_apart(hosts, tmp_path, "run", *options, *script)
    assert done.returncode == 0, done.stderr
    steps = load_run(tmp_path / "runs" / "run").steps
    counted = steps[~steps["warmup"]].groupby(["pass_id", "rank"], observed=True).size()
    assert counted.tolist() == [11, 11]


@pytest.mark.warm
def test_no_host_sees_the_folder(hosts: NetworkHosts, tmp_path: Path) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs, elsewhere):
        folder.mkdir()
    hosts.hide(hosts.names[1], runs, behind=elsewhere)
    done = hosts.hvdprof(
        *("run", "--hosts", f"{hosts.names[1]}:2", "--np", "2", "--quiet"),
        *("--output", str(runs / "run"), "--", "python", user_script.__file__),
    )
    assert done.returncode == EnvironmentNotReadyError.exit_code
    assert f"None of {hosts.names[1]} sees " in done.stderr


@pytest.mark.ran(
    "a host that vanishes",
    "Gloo, Open MPI 4.1.8",
    "two network namespaces of one host",
)
@pytest.mark.waits
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_a_host_that_vanishes_is_named_and_leaves_nothing_behind(
    hosts: NetworkHosts, controller: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    command = hosts.hvdprof_command(
        *("run", "--hosts", hosts.argument, "--np", "2", "--controller", controller),
        *("--quiet", "--no-trace", "--no-net", "--output", str(folder)),
        *("--", "python", user_script.__file__, "--epochs", "100000"),
    )
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_for(lambda: pids_in_step(folder, step=60) or running.poll() is not None)
        hosts.cut(hosts.names[1])
        stdout, stderr = running.communicate(timeout=300)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == SweepIncompleteError.exit_code, stderr
    run = load_run(folder)
    (segment,) = run.manifest.passes[0].segments
    assert segment.failure is not None
    assert segment.failure.rank == 1
    assert segment.failure.reason.startswith(
        f"host {hosts.names[1]}, which ran rank 1, has vanished (no answer for "
    )
    assert f"host {hosts.names[1]}, which ran rank 1" in " ".join(stdout.split())
    # What was recorded before counts.
    assert segment.status == Status.PARTIAL
    assert run.steps.groupby("rank").size().min() >= 60
    assert analyze_run(run).scaling["np"].tolist() == [2]
    assert hosts.processes() == []
