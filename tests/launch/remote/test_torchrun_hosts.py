import sys
import time
from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.remote import torchrun_hosts
from hvdprof.launch.remote.remote_shell import HostShell
from hvdprof.launch.remote.torchrun_hosts import free_port, host_commands, main, run_all

SHELL = HostShell(("ssh", "-q"), {"PATH": "/bin"})


def commands(hosts: str) -> list[str]:
    program = ("--no-python", "python", "train me.py")
    made = host_commands(hosts, program, {"NCCL_DEBUG": "INFO"}, SHELL, 29_000)
    return [" ".join(command) for command in made]


def test_every_host_knows_its_place_and_where_the_first_one_listens() -> None:
    first, second = commands("n1:4,n2:2")
    assert first.startswith("ssh -q -- n1 exec /bin/sh -c ")
    assert second.startswith("ssh -q -- n2 exec /bin/sh -c ")
    for place, size, command in ((0, 4, first), (1, 2, second)):
        assert f"--nnodes=2 --node-rank={place} --nproc-per-node={size}" in command
        assert "--master-addr=n1 --master-port=29000 --max-restarts=0 --no-python" in command
        assert "env PATH=/bin env NCCL_DEBUG=INFO " in command
        assert "train me.py" in command


def test_others_are_not_sent_to_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "login1")
    first, second = commands("localhost:1,n2:1")
    assert first.startswith("/bin/sh -c ")
    assert "--master-addr=login1 " in first
    assert "--master-addr=login1 " in second


def test_hosts_that_cannot_be_parsed_are_refused() -> None:
    with pytest.raises(UsageError, match="names a host twice"):
        commands("n1:1,n1:1")


def ending(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_all_run_at_the_same_time_and_all_succeed(tmp_path: Path) -> None:
    # Each waits for the file of the other.
    waits = (
        "import pathlib, sys, time\n"
        "own, other = map(pathlib.Path, sys.argv[1:])\n"
        "own.touch()\n"
        "while not other.exists(): time.sleep(0.01)\n"
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert run_all([[*ending(waits), a, b], [*ending(waits), b, a]]) == 0


@pytest.mark.parametrize(
    ("code", "expected"), [("exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_first_failure_ends_the_others_after_some_time(
    code: str, expected: int, tmp_path: Path
) -> None:
    waits = f"import pathlib, time; pathlib.Path({str(tmp_path / 'a')!r}).touch(); time.sleep(600)"
    began = time.monotonic()
    assert run_all([ending(waits), ending(code)], grace_s=0.3) == expected
    assert time.monotonic() - began < 300


def test_others_may_say_why_they_fail_too(capfd: pytest.CaptureFixture[str]) -> None:
    late = "import time; time.sleep(0.5); print('the peer is gone'); exit(2)"
    assert run_all([ending("exit(3)"), ending(late)], grace_s=300) == 3
    assert "the peer is gone" in capfd.readouterr().out


def test_what_was_started_is_ended_where_a_command_is_missing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    waits = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text('x'); time.sleep(600)"
    began = time.monotonic()
    with pytest.raises(FileNotFoundError):
        run_all([ending(waits), [str(tmp_path / "no-ssh")]])
    assert time.monotonic() - began < 300


def test_the_port_is_free_on_this_host_and_drawn_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 1024 <= free_port("localhost") < 65_536
    monkeypatch.setattr(torchrun_hosts, "is_this_host", lambda _name: False)
    assert 20_000 <= free_port("n1") < 30_000


def test_only_variables_that_are_set_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(torchrun_hosts, "run_all", lambda commands: started.extend(commands) or 4)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    names = "GLOO_SOCKET_IFNAME,NCCL_DEBUG"
    hosts = ("--hosts=localhost:2", f"--export={names}")
    assert main([*hosts, "--", "--no-python", "python", "t.py", "--hosts", "x"]) == 4
    (command,) = started
    assert "GLOO_SOCKET_IFNAME=eth0" in command[-1]
    assert "NCCL_DEBUG" not in command[-1]
    assert command[-1].endswith("--max-restarts=0 --no-python python t.py --hosts x")


def test_a_missing_ssh_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--hosts=n1:1", "--", "--no-python", "python"]) != 0
    assert "There is no ssh in PATH" in capsys.readouterr().err
