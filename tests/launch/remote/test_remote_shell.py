import os
import subprocess
import threading
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.remote.remote_shell import (
    FETCH_AFTER_S,
    HostShell,
    WatchFetch,
    fetch,
    host_shell,
    hosts_with_ranks,
    module_error,
    on_each,
)
from hvdprof.rundir.layout import PassPaths, watched_mark
from tests.builders.bench_settings import bench_settings


def _agent(folder: Path, name: str = "ssh") -> str:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


def test_a_program_reaches_another_host_with_folder_and_paths(tmp_path: Path) -> None:
    # A remote shell that prints the command it was given, and splits one word itself.
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nhost=$1; shift; echo "on $host"; exec /bin/sh -c "$*"\n')
    agent.chmod(0o755)
    shell = HostShell((str(agent),), {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/my libs"})
    script = 'echo "$PWD|$PYTHONPATH|$1"'
    done = subprocess.run(
        shell.command("far.away", ["/bin/sh", "-c", script, "sh", "a 'b' \"c\" $d"]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["on far.away", f"{Path.cwd()}|/my libs|a 'b' \"c\" $d"]


def test_this_host_needs_no_remote_shell() -> None:
    command = HostShell(("/no/such/agent",), {}).command("localhost", ["echo", "here"])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "here\n"


def test_srun_hands_the_words_on() -> None:
    command = HostShell(("srun", "-n1"), {}, takes_words=True).command("node7", ["x", "a b"])
    assert command[:5] == ["srun", "-n1", "--nodelist=node7", "/bin/sh", "-c"]
    assert command[5].endswith("exec env x 'a b'")


def test_ssh_never_asks_and_is_bounded(tmp_path: Path) -> None:
    _agent(tmp_path)
    environment = {"PATH": str(tmp_path)}
    under_mpi = host_shell(bench_settings(hosts="a:1,b:1"), environment).agent
    assert under_mpi == ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
    gloo = host_shell(bench_settings(hosts="a:1,b:1", controller="gloo"), environment)
    # As horovodrun does it, which takes keys of hosts that are new; never where files come back.
    assert "StrictHostKeyChecking=no" in gloo.command("b", ["x"], as_horovod=True)
    assert "StrictHostKeyChecking=no" not in gloo.command("b", ["x"])


def test_a_host_is_never_an_option_of_ssh(tmp_path: Path) -> None:
    _agent(tmp_path)
    shell = host_shell(bench_settings(hosts="a:1,b:1"), {"PATH": str(tmp_path)})
    command = shell.command("no-such.invalid", ["x"])
    assert command[command.index("no-such.invalid") - 1] == "--"
    with pytest.raises(UsageError, match="not the name of a host"):
        shell.command("-oProxyCommand=/x", ["x"])


def test_the_agent_of_the_launcher_is_used(tmp_path: Path) -> None:
    kubexec = _agent(tmp_path, "kubexec.sh")
    environment = {"PATH": "/bin", "OMPI_MCA_plm_rsh_agent": f"nothing -x:{kubexec} -q"}
    assert host_shell(bench_settings(hosts="a:1"), environment).agent == (kubexec, "-q")


def test_no_remote_shell_at_all(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotReadyError, match="no ssh in PATH"):
        host_shell(bench_settings(hosts="a:1"), {"PATH": str(tmp_path)})


def test_only_hosts_that_get_ranks_are_asked() -> None:
    settings = bench_settings(hosts="a:2,b:2,c:2", sizes=(1, 3))
    assert hosts_with_ranks(settings) == {"a": 2, "b": 1}
    assert hosts_with_ranks(settings, 1) == {"a": 1}
    assert hosts_with_ranks(bench_settings()) == {}


def test_hosts_of_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "4")
    assert hosts_with_ranks(bench_settings(launcher="srun", sizes=(2,))) == {"n1": 2}


@pytest.fixture
def far(tmp_path: Path) -> HostShell:
    """A remote shell to a host that has another folder where the pass is here."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/bash\nexec /bin/bash -c "${2//\\/here/\\/there}"\n')
    agent.chmod(0o755)
    return HostShell((str(agent),), dict(os.environ))


@pytest.fixture
def paths(tmp_path: Path) -> PassPaths:
    there = PassPaths(tmp_path / "there")
    for path in (there.watch_file(1), there.stack_file(1), there.recorder_file(1)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    here = PassPaths(tmp_path / "here")
    here.folder.mkdir()
    return here


def test_all_that_ranks_write_is_fetched(far: HostShell, paths: PassPaths) -> None:
    assert fetch(paths, ["far"], far) == {}
    for path in (paths.watch_file(1), paths.stack_file(1), paths.recorder_file(1)):
        assert path.read_text() == path.name


def test_the_mark_of_a_watcher_stays_there(far: HostShell, paths: PassPaths) -> None:
    watched_mark(paths.recorder_folder.parent.parent / "there" / "recorder").touch()
    assert fetch(paths, ["far"], far) == {}
    assert sorted(path.name for path in paths.recorder_folder.iterdir()) == ["rank-1.jsonl"]


def test_the_reason_for_a_failed_fetch_is_reported(paths: PassPaths) -> None:
    shell = HostShell(("/bin/sh", "-c", "echo the disk is gone >&2; exit 5"), {})
    assert fetch(paths, ["far"], shell) == {"far": "the disk is gone"}
    assert fetch(paths, ["far"], HostShell(("true",), {})) == {"far": "no files came back"}
    (reason,) = fetch(paths, ["far"], HostShell(("/no/such/agent",), {})).values()
    assert "/no/such/agent" in reason
    (reason,) = fetch(PassPaths(paths.folder / "absent"), ["far"], shell).values()
    assert "No such file or directory" in reason


def test_files_are_fetched_only_while_no_rank_makes_progress(
    far: HostShell, paths: PassPaths
) -> None:
    now_s = [100.0]
    standing = WatchFetch(paths, ["far"], far, lambda: now_s[0])
    for progress in range(20):
        now_s[0] += 2
        standing.look(progress)
    assert not paths.watch_folder.exists()
    now_s[0] += FETCH_AFTER_S
    standing.look(progress)
    for thread in threading.enumerate():
        if thread.name == "hvdprof fetch":
            thread.join(60)
    assert paths.watch_file(1).read_text() == paths.watch_file(1).name
    assert not paths.recorder_folder.exists()


def test_hosts_that_see_the_folder_are_left_alone(far: HostShell, paths: PassPaths) -> None:
    now_s = [100.0]
    standing = WatchFetch(paths, [], far, lambda: now_s[0])
    for _ in range(5):
        now_s[0] += 10
        standing.look(1)
    assert not paths.watch_folder.exists()


def test_something_on_every_host_at_once() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def act(name: str) -> str:
        meeting.wait()
        return "" if name == "b" else f"{name} is full"

    assert on_each(["a", "b", "c"], act) == {"a": "a is full", "c": "c is full"}
    assert on_each([], act) == {}


def test_the_last_line_of_stderr_is_reported() -> None:
    shell = HostShell(("/bin/sh", "-c", "cat >&2; exit 1"), {})
    assert module_error(shell, "far", ("some.module",), b"first\nlast\n\n") == "last"
    assert module_error(HostShell(("true",), {}), "far", ("some.module",)) == ""
