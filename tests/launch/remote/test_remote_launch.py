import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

import pytest

from hvdprof.errors import HvdprofError, InterruptedRunError, StorageError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.processes.launch_process import Launch, Watch
from hvdprof.launch.remote import remote_launch as host_launch
from hvdprof.launch.remote.host_watch import HostWatch
from hvdprof.launch.remote.kill_ranks import main as end_ranks
from hvdprof.launch.remote.remote_launch import LaunchOnHosts, ranks_of_hosts
from hvdprof.launch.remote.remote_shell import HostShell, fetch
from hvdprof.rundir.layout import PassPaths, RunPaths, watched_mark
from hvdprof.rundir.manifest import Manifest, PassRecord
from tests.builders.bench_settings import bench_settings
from tests.builders.places import ROOT
from tests.builders.processes import is_running
from tests.builders.run_directory import write_run

SETTINGS = bench_settings(hosts="localhost:1,far:2", sizes=(3,), controller="gloo")


def _far(folder: Path) -> HostShell:
    """A remote shell to a host that has another folder where the run directory is here."""
    agent = folder / "agent"
    agent.write_text(
        f'#!/bin/bash\n[ -e "{folder}/down" ] && exit 255\n'
        f'exec /bin/bash -c "${{2//\\/here\\//\\/there\\/}}"\n'
    )
    agent.chmod(0o755)
    return HostShell((str(agent),), dict(os.environ))


def _manifest(folder: Path, pass_id: str) -> Manifest:
    manifest = Manifest.read(write_run(folder, []))
    manifest.passes = [
        PassRecord(
            id=pass_id,
            mode="throughput",
            size=3,
            repeat=1,
            controller="gloo",
            oversubscribed=False,
            pinned=False,
            segments=[],
        )
    ]
    return manifest


def _launch(paths: PassPaths, script: str) -> Launch:
    paths.recorder_folder.mkdir(parents=True)
    paths.plan.write_text("the plan")
    return replace(_started(paths), command=["/bin/bash", "-c", script])


def _started(paths: PassPaths) -> Launch:
    job = Job(size=3, program=(), hosts=None, environment={}, passed_on=(), device="cpu")
    return Launch(
        job=job,
        command=[],
        environment=dict(os.environ),
        paths=paths,
        watch=Watch(progress=lambda: 1, timeout_s=30),
    )


def _ending_badly(gone: Path) -> str:
    """A launcher that says something before a host goes, and more when it is ended itself."""
    ended = "trap 'echo I was ended >&2; exit 1' TERM"
    return f"{ended}; echo trouble >&2; touch {gone}; sleep 300 & wait"


def _on_hosts(
    tmp_path: Path, *, apart: tuple[str, ...] = ("far",)
) -> tuple[LaunchOnHosts, PassPaths]:
    paths = RunPaths(tmp_path / "here").of_pass("p1")
    manifest = _manifest(tmp_path / "here", "p1")
    return LaunchOnHosts(SETTINGS, manifest, _far(tmp_path), apart), paths


def test_ranks_are_counted_over_hosts_in_order() -> None:
    assert ranks_of_hosts({"a": 2, "b": 1, "c": 3}) == {"a": [0, 1], "b": [2], "c": [3, 4, 5]}


def test_the_plan_goes_there_and_the_files_come_back(tmp_path: Path) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    there = str(paths.folder).replace("/here/", "/there/")
    outcome = on_hosts(_launch(paths, f"cp {there}/plan.json {there}/recorder/rank-1.jsonl"))
    assert (outcome.exit_code, outcome.failure) == (0, None)
    assert paths.recorder_file(1).read_text() == "the plan"
    assert on_hosts.manifest.passes[0].left_behind == []


def test_a_host_that_is_not_seen_while_somebody_watches_is_a_warning(tmp_path: Path) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    agent = Path(on_hosts.shell.agent[0])
    refuses = '[[ $2 == *live_files* ]] && { echo "too many sessions" >&2; exit 1; }'
    agent.write_text(agent.read_text().replace("\nexec", f"\n{refuses}\nexec"))
    outcome = on_hosts(_launch(paths, f"touch {watched_mark(paths.recorder_folder)}; sleep 4"))
    assert (outcome.exit_code, outcome.failure) == (0, None)
    assert on_hosts.manifest.warnings == [
        "far, which ran ranks 1 and 2, was not seen all the time while the job was watched (too "
        "many sessions)."
    ]


def test_a_host_that_takes_no_plan_starts_nothing(tmp_path: Path) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    (tmp_path / "down").touch()
    outcome = on_hosts(_launch(paths, f"touch {tmp_path}/started"))
    assert outcome.failure is not None
    assert outcome.failure.reason == (
        "host far, which ran ranks 1 and 2, cannot be given the plan (code 255)"
    )
    assert outcome.failure.rank == 1
    assert not (tmp_path / "started").exists()


def test_files_that_do_not_come_back_are_remembered_and_fetched_later(tmp_path: Path) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    there = Path(str(paths.folder).replace("/here/", "/there/"))
    script = f"echo 1 > {there}/recorder/rank-1.jsonl; touch {tmp_path}/down"
    outcome = on_hosts(_launch(paths, script))
    assert outcome.failure is not None
    assert outcome.failure.reason == (
        "host far, which ran ranks 1 and 2, keeps the files of its ranks; --resume fetches them "
        "(exit code 255)"
    )
    assert on_hosts.manifest.passes[0].left_behind == ["far"]
    assert not paths.recorder_file(1).exists()
    assert fetch(paths, ["far"], on_hosts.shell) == {"far": "exit code 255"}
    (tmp_path / "down").unlink()
    assert fetch(paths, ["far"], on_hosts.shell) == {}
    assert paths.recorder_file(1).read_text() == "1\n"


@pytest.mark.waits
def test_a_host_that_vanishes_ends_the_launch_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    gone = tmp_path / "gone"
    watch = HostWatch
    monkeypatch.setattr("hvdprof.launch.remote.host_watch.NO_PROGRESS_S", 0.1)
    monkeypatch.setattr("hvdprof.launch.remote.host_watch.LEAST_SILENT_S", 1.0)
    monkeypatch.setattr("hvdprof.launch.remote.host_watch._PAUSE_S", 0.2)
    monkeypatch.setattr(
        host_launch, "HostWatch", lambda hosts: watch(hosts, lambda name: not gone.exists())
    )
    began = time.monotonic()
    outcome = on_hosts(_launch(paths, _ending_badly(gone)))
    assert time.monotonic() - began < 25
    assert outcome.hung
    assert outcome.failure is not None
    assert outcome.failure.reason.startswith(
        "host far, which ran ranks 1 and 2, has vanished (no answer for "
    )
    assert outcome.failure.rank == 1
    assert outcome.failure.lines == ["trouble"]
    assert on_hosts.manifest.passes[0].left_behind == ["far"]

    # The next launch does not wait for it.
    again = on_hosts(replace(_started(paths), command=["touch", str(tmp_path / "started")]))
    assert again.failure is not None
    assert again.failure.reason == "host far, which ran ranks 1 and 2, has vanished (no answer)"
    assert not (tmp_path / "started").exists()


def test_a_launch_that_fails_by_itself_keeps_its_own_reason(tmp_path: Path) -> None:
    on_hosts, paths = _on_hosts(tmp_path, apart=())
    outcome = on_hosts(_launch(paths, "exit 3"))
    assert (outcome.exit_code, outcome.failure) == (3, None)


@pytest.mark.slow
@pytest.mark.parametrize("reason", [StorageError("no space left"), InterruptedRunError("SIGTERM")])
def test_every_end_of_the_watch_over_a_launch_ends_its_ranks(
    tmp_path: Path, reason: HvdprofError
) -> None:
    on_hosts, paths = _on_hosts(tmp_path)
    there = PassPaths(Path(str(paths.folder).replace("/here/", "/there/")))
    environment = {**os.environ, "HVDPROF_RECORDER_DIR": str(there.recorder_folder)}
    rank = subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True)

    def run(launch: Launch) -> NoReturn:
        raise reason

    on_hosts.run = run
    try:
        with pytest.raises(type(reason)):
            on_hosts(_launch(paths, "exit 0"))
        assert rank.wait(20) != 0
    finally:
        rank.kill()
        rank.wait()
    assert on_hosts.manifest.passes[0].left_behind == ["far"]


def test_a_killed_launching_side_leaves_no_rank_behind_on_other_hosts(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "here").of_pass("p1")
    there = PassPaths(Path(str(paths.folder).replace("/here/", "/there/")))
    environment = {**os.environ, "HVDPROF_RECORDER_DIR": str(there.recorder_folder)}
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.launch.remote.test_remote_launch import _launch, _on_hosts\n"
        "on_hosts, paths = _on_hosts(Path(sys.argv[1]))\n"
        "on_hosts.run = lambda launch: os.kill(os.getpid(), signal.SIGKILL)\n"
        "on_hosts(_launch(paths, 'exit 0'))\n"
    )
    with subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True) as rank:
        try:
            launching = subprocess.run(
                [sys.executable, "-c", script, str(tmp_path)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert launching.returncode == -signal.SIGKILL
            assert rank.wait(30) != 0
        finally:
            rank.kill()


def test_ranks_that_a_launcher_leaves_behind_are_ended(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path / "p1")
    environment = {**os.environ, "HVDPROF_RECORDER_DIR": str(paths.recorder_folder)}
    program = [sys.executable, "-c", "import time; time.sleep(300)"]
    rank = subprocess.Popen(program, env=environment, start_new_session=True)
    other = subprocess.Popen(program, start_new_session=True)
    try:
        assert end_ranks([str(paths.folder)]) == 0
        assert rank.wait(20) != 0
        assert is_running(other.pid)
    finally:
        for process in (rank, other):
            process.kill()
            process.wait()


def test_hosts_left_behind_are_recorded_in_the_manifest(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, "p1")
    manifest.passes = [replace(manifest.passes[0], left_behind=["far"])]
    manifest.write(RunPaths(tmp_path))
    assert Manifest.read(tmp_path).passes[0].left_behind == ["far"]
    assert asdict(Manifest.read(tmp_path).passes[0])["left_behind"] == ["far"]
