"""`hvdprof run` on an elastic script under real Horovod: ranks come, and ranks die."""

import json
import signal
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import elastic_script
from tests.builders.network_hosts import network_hosts
from tests.builders.running_command import hvdprof, started, wait_for

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(900)]

SCRIPT = elastic_script.__file__


def run(folder: Path, hosts: str, own: tuple[str, ...], *of_script: str):
    """The ended command and the run directory of an elastic job on those hosts."""
    listed, discover = discovery(folder, hosts)
    elastic = ("--min-np", "1", "--max-np", "2", "--host-discovery-script", str(discover))
    script = ("--", "python", SCRIPT, "--hosts", str(listed), *of_script)
    ended = hvdprof("run", "-q", "-o", str(folder / "run"), *elastic, *own, *script)
    return ended, folder / "run"


def discovery(folder: Path, hosts: str) -> tuple[Path, Path]:
    """A list of hosts, and the script that prints it."""
    listed, discover = folder / "hosts", folder / "discover.sh"
    listed.write_text(hosts)
    discover.write_text(f"#!/bin/sh\ncat '{listed}'\n")
    discover.chmod(0o755)
    return listed, discover


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.ran(
    "`hvdprof run --min-np 1 --max-np 2`: a rank comes in",
    "Gloo",
    "one host",
)
def test_a_rank_that_comes_in_starts_a_session_of_its_own(tmp_path):
    ended, folder = run(
        tmp_path,
        "localhost:1\n",
        ("--no-trace",),
        *("--batches", "160", "--pause", "0.02", "--grow-at", "20", "--grow-to", "localhost:2"),
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("elastic_script on 2 ranks:")
    assert "Reset 1, 1 to 2 ranks:" in words(ended.stdout)
    manifest = Manifest.read(folder)
    assert manifest.status == Status.DONE
    assert [(one.session, one.size) for one in manifest.passes] == [(0, 1), (1, 1), (2, 2)]
    analysis = analyze_run(load_run(folder))
    assert analysis.scaling["np"].tolist() == [1, 2]
    sessions = analysis.table("sessions")
    assert sessions["ended"].tolist() == ["hosts-updated", "finished"]
    assert sessions["came"].iloc[1].startswith("rank 1 (localhost slot 1, process")
    # No batch is trained twice, and none is left out.
    assert sessions["num_steps"].sum() == 160
    (reset,) = analysis.table("resets").to_dict("records")
    assert reset["lost_steps"] == 0
    pieces = ("notice", "shutdown", "rendezvous", "sync", "begin")
    assert sum(reset[f"{piece}_ns"] for piece in pieces) == pytest.approx(reset["stopped_ns"])
    # The new process imports torch while the other waits for it.
    assert 0 < reset["worker_start_ns"] < reset["stopped_ns"] < reset["until_steady_ns"]
    commits = analysis.run.events[analysis.run.events["activity"] == "commit"]
    assert {"mark", "part"} == set(commits["phase"].astype(str))


@pytest.mark.ran(
    "the same: a rank is killed",
    "Gloo",
    "one host under two names",
)
def test_a_rank_that_dies_is_named_and_both_timelines_remain(tmp_path):
    ended, folder = run(
        tmp_path,
        "localhost:1\n127.0.0.1:1\n",
        ("--np", "2", "--timeline-steps", "50"),
        *("--batches", "75", "--pause", "0.02", "--kill-at", "38", "--commit-every", "5"),
    )

    assert ended.returncode == 0, ended.stderr
    assert "ended by SIGKILL" in words(ended.stdout)
    assert "3 steps lost since the last commit" in words(ended.stdout)
    analysis = analyze_run(load_run(folder))
    sessions, resets = analysis.table("sessions"), analysis.table("resets")
    assert sessions["mode"].tolist() == ["throughput"] * 2 + ["trace"] * 2
    assert sessions["num_steps"].tolist() == [38, 40] * 2
    assert sessions["np"].tolist() == [2, 1] * 2
    assert resets["cause"].tolist() == ["worker-lost"] * 2
    assert resets["lost_steps"].tolist() == [3, 3]
    assert (resets["stopped_ns"] > 0).all()
    files = sorted(folder.glob("passes/*/timeline/*.json"))
    assert [path.parent.parent.name[-8:] for path in files] == ["session1", "session2"]
    for path in files:
        assert len(json.loads(path.read_text())) > 20
    assert set(analysis.run.table("timelines")["pass_id"].astype(str)) == {
        path.parent.parent.name for path in files
    }


def test_resuming_keeps_the_sessions_and_makes_the_launch_once_more(tmp_path):
    listed, discover = discovery(tmp_path, "localhost:1\n")
    elastic = ("--min-np", "1", "--host-discovery-script", str(discover), "--no-trace")
    script = ("--", "python", SCRIPT, "--hosts", str(listed), "--batches", "99999")
    first = "01-elastic-throughput-r1"
    with started("run", "-q", "-o", "run", *elastic, *script, cwd=tmp_path) as process:
        recording = RunPaths(tmp_path / "run").of_pass(first).session(1).recorder_file(0)
        wait_for(lambda: recording.exists() and recording.read_bytes().count(b'"step"') >= 60)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr
    assert "hvdprof run --resume run" in stderr
    stored = RunPaths(tmp_path / "run").resume
    stored.write_text(stored.read_text().replace("99999", "60"))

    resumed = hvdprof("run", "--resume", "run", "--yes", "-q", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == Status.DONE
    assert [record.id for record in manifest.passes] == [
        first,
        f"{first}-session1",
        f"{first}-attempt2",
        f"{first}-attempt2-session1",
    ]
    analysis = analyze_run(load_run(tmp_path / "run"))
    assert analysis.scaling["num_launches"].tolist() == [2]
    assert len(analysis.table("sessions")) == 2


@pytest.mark.ran(
    "the same: a host comes in",
    "Gloo, over a stand-in for ssh",
    "three network namespaces of one host",
)
@pytest.mark.root
def test_a_host_that_comes_in_is_named(tmp_path):
    with network_hosts(tmp_path, number=3) as hosts:
        first, second, third = hosts.names
        listed, discover = discovery(tmp_path, f"{first}:1\n{second}:1\n")
        elastic = ("--np", "2", "--min-np", "2", "--host-discovery-script", str(discover))
        grown = ",".join(f"{name}:1" for name in hosts.names)
        growing = ("--hosts", str(listed), "--grow-at", "20", "--grow-to", grown)
        script = ("--", "python", SCRIPT, *growing, "--batches", "130", "--pause", "0.02")
        own = ("run", "-q", "--no-trace", "-o", str(tmp_path / "run"), *elastic)
        ended = hosts.hvdprof(*own, *script)

        assert ended.returncode == 0, ended.stderr
        analysis = analyze_run(load_run(tmp_path / "run"))
        assert analysis.table("sessions")["np"].tolist() == [2, 3]
        (reset,) = analysis.table("resets").to_dict("records")
        assert f"({third} slot 0, process" in reset["came"]
        ranks = analysis.run.ranks.groupby("pass_id", observed=True)["hostname"].agg(set)
        assert ranks.astype(object).tolist() == [{first, second}, {first, second, third}]
        assert hosts.processes() == []
