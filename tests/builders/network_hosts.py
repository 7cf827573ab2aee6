"""Hosts made of network namespaces on a bridge of their own: nothing leaves this machine.

Every host has its own network, host name and hosts file. A folder with a stand-in for ``ssh``,
which runs commands on a host, makes launchers work without any daemon. Needs root and iproute2.
"""

import contextlib
import itertools
import os
import shutil
import signal
import string
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_SUBNET = "10.78.{}"
_MADE = itertools.count()
_FOLDER_OF_NAMESPACES = Path("/etc/netns")

# Options may stand on both sides of the host's name: horovodrun puts some behind it.
_SSH = """#!/bin/bash
skip() {{
  while [ $# -gt 0 ]; do
    case $1 in -o|-p|-i|-l) shift 2;; -*) shift;; *) break;; esac
  done
  left=("$@")
}}
skip "$@"; host=${{left[0]}}; skip "${{left[@]:1}}"
if [ -e "{folder}/$host.unreachable" ]; then
  echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255
fi
exec "{folder}/on" "$host" /bin/bash -c "${{left[*]}}"
"""
_ON = """#!/bin/bash
host=$1; shift
mounts={folder}/$host.mounts
if [ -e "{folder}/$host.core" ]; then
  set -- taskset --cpu-list "$(cat "{folder}/$host.core")" "$@"
fi
exec ip netns exec "$host" unshare --uts --mount /bin/bash -c '
  hostname "$0"; mounts=$1; shift
  if [ -e "$mounts" ]; then
    while read -r from to; do mount --bind "$from" "$to" || exit 1; done <"$mounts"
  fi
  exec "$@"' "$host" "$mounts" "$@"
"""


@dataclass(frozen=True)
class NetworkHosts:
    """Running hosts: their names, and the folder with what reaches them."""

    names: list[str]
    folder: Path
    _switch: str = field(repr=False)

    @property
    def argument(self) -> str:
        """The hosts as ``--hosts`` takes them, one slot each."""
        return ",".join(f"{name}:1" for name in self.names)

    def command(self, name: str, *program: str) -> list[str]:
        """The argument list that runs a program on a host."""
        return [str(self.folder / "on"), name, *program]

    def hvdprof(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run hvdprof on the first host."""
        return subprocess.run(
            self.hvdprof_command(*arguments, **environment),
            capture_output=True,
            text=True,
            timeout=600,
        )

    def hvdprof_command(self, *arguments: str, **environment: str) -> list[str]:
        """The argument list that runs hvdprof on the first host."""
        folders = [self.folder / "bin", Path(sys.executable).parent, os.environ["PATH"]]
        variables = {
            "PATH": os.pathsep.join(map(str, folders)),
            "OMPI_MCA_btl_tcp_if_include": "eth0",
            **environment,
        }
        settings = [f"{name}={value}" for name, value in variables.items()]
        program = (sys.executable, "-m", "hvdprof", *arguments)
        return self.command(self.names[0], "env", *settings, *program)

    def limit(self, rate: str, burst: str = "64kb", latency: str = "100ms") -> None:
        """Give every link a rate in both directions, as ``tc`` spells it: ``200mbit``.

        ``burst`` is what passes at once after a pause, so that small messages seem faster.
        ``latency`` is the longest wait in the queue; packets beyond it are dropped.
        """
        shaping = ["root", "tbf", "rate", rate, "burst", burst, "latency", latency]
        for name in self.names:
            _run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", *shaping])
            outer = ["tc", "qdisc", "replace", "dev", f"p{name}", *shaping]
            _run(["ip", "netns", "exec", self._switch, *outer])

    def cut(self, name: str) -> None:
        """Take a host off the network, as if its cable were pulled."""
        _run(["ip", "-n", self._switch, "link", "set", f"p{name}", "down"])
        self.unreachable(name)

    def unreachable(self, name: str) -> None:
        """Let ``ssh`` to a host fail."""
        (self.folder / f"{name}.unreachable").touch()

    def hide(self, name: str, folder: Path, behind: Path) -> None:
        """Let a host have another folder at a path; both exist."""
        with (self.folder / f"{name}.mounts").open("a") as file:
            file.write(f"{behind} {folder}\n")

    def processes(self) -> list[int]:
        """The processes that run on any of the hosts."""
        return [
            int(pid)
            for name in self.names
            for pid in _run(["ip", "netns", "pids", name]).stdout.split()
        ]


@contextlib.contextmanager
def network_hosts(
    folder: Path, number: int = 2, *, one_core: bool = False
) -> Iterator[NetworkHosts]:
    """Hosts that live as long as the block; the test is skipped where none can be made.

    Every host may use all cores of the machine, and ranks that pin themselves all take the first
    one. With ``one_core`` each may use one alone, and the hosts take turns over the cores.
    """
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("ip and tc are missing: apt-get install iproute2")
    # Several tests may run at once, so names and subnets are of this process; a test may make
    # other hosts while those of its module are there.
    tag = (os.getpid() + 1_000 * next(_MADE)) % 10_000
    switch = f"sw{tag}"
    names = [f"hv{tag}{string.ascii_lowercase[index]}" for index in range(number)]
    try:
        _make(names, switch, _SUBNET.format(tag % 250))
    except subprocess.CalledProcessError as error:
        _remove(names, switch)
        pytest.skip(f"this kernel gives no network namespaces: {error.stderr.strip()[-200:]}")
    try:
        _write_program(folder / "on", _ON.format(folder=folder))
        _write_program(folder / "bin" / "ssh", _SSH.format(folder=folder))
        cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
        for name, core in zip(names if one_core else (), cores, strict=False):
            (folder / f"{name}.core").write_text(str(core))
        yield NetworkHosts(names, folder, switch)
    finally:
        for pid in NetworkHosts(names, folder, switch).processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _remove(names, switch)


def _make(names: Sequence[str], switch: str, subnet: str) -> None:
    _run(["ip", "netns", "add", switch])
    _run(["ip", "-n", switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0"])
    _run(["ip", "-n", switch, "link", "set", "br0", "up"])
    lines = ["127.0.0.1 localhost"]
    lines += [f"{subnet}.{number} {name}" for number, name in enumerate(names, start=1)]
    for number, name in enumerate(names, start=1):
        of_host = _FOLDER_OF_NAMESPACES / name
        of_host.mkdir(parents=True)
        (of_host / "hosts").write_text("\n".join(lines) + "\n")
        _run(["ip", "netns", "add", name])
        peer = ["type", "veth", "peer", "name", f"p{name}", "netns", switch]
        _run(["ip", "link", "add", "eth0", "netns", name, *peer])
        _run(["ip", "-n", switch, "link", "set", f"p{name}", "master", "br0", "up"])
        for device in ("lo", "eth0"):
            _run(["ip", "-n", name, "link", "set", device, "up"])
        _run(["ip", "-n", name, "addr", "add", f"{subnet}.{number}/24", "dev", "eth0"])


def _remove(names: Sequence[str], switch: str) -> None:
    for name in (*names, switch):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        shutil.rmtree(_FOLDER_OF_NAMESPACES / name, ignore_errors=True)


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=True)
