"""A real Slurm of one node for the tests: munged, slurmctld and slurmd on this machine alone.

Debian's packages are enough: slurmctld, slurmd, slurm-client, munge. Nothing of the system's own
Slurm is touched: keys, sockets, state and ports are those of a folder of its own, and all listens
on 127.0.0.1. Needs root, because slurmd starts tasks as the users of jobs.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.builders.free_ports import free_ports

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
_SBIN = "/usr/sbin:/usr/local/sbin"
_WAIT_S = 120.0


class NoSlurmError(Exception):
    """Slurm cannot be started here, and why."""


@dataclass(frozen=True)
class SlurmNode:
    """The running node: what a shell needs to reach it, beside the variables of the process."""

    settings: dict[str, str]
    hostname: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a command on it, begun now."""
        return {**os.environ, **self.settings}


@contextlib.contextmanager
def slurm_node(folder: Path) -> Iterator[SlurmNode]:
    """A node with four times the machine's processors, ended with all its daemons.

    Args:
        folder: An empty folder for all its files, whose path is short enough for sockets.
    """
    if os.geteuid() != 0:
        raise NoSlurmError("slurmd needs root")
    path = f"{os.environ['PATH']}:{_SBIN}"
    missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
    if missing:
        raise NoSlurmError(
            f"{', '.join(missing)} missing: apt-get install -y --no-install-recommends "
            "slurmctld slurmd slurm-client munge"
        )
    hostname = socket.gethostname().split(".")[0]
    configuration = folder / "slurm.conf"
    node = SlurmNode({"PATH": path, "SLURM_CONF": str(configuration)}, hostname)
    try:
        _write(folder, configuration, hostname)
        _start(folder, configuration, hostname, node.environment)
        yield node
    finally:
        _stop(folder)


def _write(folder: Path, configuration: Path, hostname: str) -> None:
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    controller_port, node_port = free_ports(2)
    configuration.write_text(
        f"""\
ClusterName=one
SlurmctldHost={hostname}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
NodeName={hostname} NodeAddr=127.0.0.1 CPUs={4 * (os.cpu_count() or 1)} State=UNKNOWN
PartitionName=all Nodes={hostname} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
SlurmdParameters=config_overrides
"""
    )


def _start(folder: Path, configuration: Path, hostname: str, environment: dict[str, str]) -> None:
    munge = folder / "munge"
    commands = (
        [
            *("munged", "--force", f"--key-file={munge}/key", f"--socket={munge}/sock"),
            *(f"--pid-file={folder}/munged.pid", f"--log-file={munge}/log"),
            f"--seed-file={munge}/seed",
        ],
        ["slurmctld", "-f", str(configuration)],
        ["slurmd", "-f", str(configuration), "-N", hostname],
    )
    for command in commands:
        # Daemons keep what they inherit open: a pipe would never end.
        with (folder / "start.log").open("ab") as log:
            done = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=_WAIT_S)
        if done.returncode != 0:
            raise NoSlurmError(f"{command[0]} does not start: {_end_of(folder / 'start.log')}")
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        state = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True
        )
        if "idle" in state.stdout:
            return
        time.sleep(0.3)
    raise NoSlurmError(f"the node does not become idle: {_end_of(folder / 'slurmd.log')}")


def _stop(folder: Path) -> None:
    for name in ("slurmd", "slurmctld", "munged"):
        pid_file = folder / f"{name}.pid"
        with contextlib.suppress(OSError, ValueError):
            pid = int(pid_file.read_text())
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + 10
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.1)


def _end_of(path: Path) -> str:
    return path.read_text(errors="replace")[-300:].strip() if path.exists() else ""
