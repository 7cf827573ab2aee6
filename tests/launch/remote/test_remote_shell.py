import subprocess
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.remote.remote_shell import HostShell, host_shell, hosts_with_ranks
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
