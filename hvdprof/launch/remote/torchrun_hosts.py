"""``python -m hvdprof.launch.remote.torchrun_hosts``: ``torchrun`` on every host of a job.

``torchrun`` starts ranks on its own host alone, and is started on each by the user or a scheduler.
This starts one per host, over ssh on others, with what they need to meet: the address of the first
host, one port, and their place in the order of hosts. It ends as the first of them that fails.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from hvdprof.errors import HvdprofError
from hvdprof.launch.plan.hosts import is_this_host, parse_hosts
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.remote.remote_shell import HostShell, ssh_shell

GRACE_S = 15.0
"""How long the others may print why they fail, too, after the first that failed."""

_POLL_S = 0.1
# Below the ports that Linux gives to connections, and above those of most services.
_FIRST_PORT, _LAST_PORT = 20_000, 30_000


def host_commands(
    hosts: str, arguments: Sequence[str], exported: Mapping[str, str], shell: HostShell, port: int
) -> list[list[str]]:
    """The argument list that starts ``torchrun`` for each host, in the order of ranks.

    Args:
        hosts: Every host with its number of ranks, ``h1:4,h2:2``.
        arguments: Further options of ``torchrun``, the program, and its arguments.
        exported: Variables that ranks on other hosts need.
        shell: How hosts are reached.
        port: Where ranks meet, on the first host.

    Raises:
        UsageError: The hosts cannot be parsed.
    """
    placed = parse_hosts(hosts)
    variables = [f"{name}={value}" for name, value in exported.items()]
    return [
        shell.command(
            host.name,
            (
                *("env", *variables),
                *python_program("torch.distributed.run"),
                f"--nnodes={len(placed)}",
                f"--node-rank={place}",
                f"--nproc-per-node={host.slots}",
                f"--master-addr={_address(placed[0].name)}",
                f"--master-port={port}",
                # A failed rank is a failed launch: torchrun must not start ranks again.
                "--max-restarts=0",
                *arguments,
            ),
        )
        for place, host in enumerate(placed)
    ]


def run_all(
    commands: Sequence[Sequence[str]], grace_s: float = GRACE_S, *, serve_first: bool = False
) -> int:
    """Run commands at the same time; the exit code of the first that fails, 0 where none does.

    Their output goes where that of this process goes. What still runs ``grace_s`` seconds after the
    first failure is ended. With ``serve_first`` the others never end by themselves, and are ended
    when the first one has.

    Raises:
        OSError: A command cannot be started; none is left.
    """
    running: list[subprocess.Popen[bytes]] = []
    failed, deadline_s = 0, float("inf")
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        first = running[0]
        while running and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            if serve_first and (code := first.poll()) is not None:
                failed = failed or code
                break
            ended = [process.returncode for process in running if process.poll() is not None]
            running = [process for process in running if process.returncode is None]
            if not failed and (failed := next(filter(None, ended), 0)):
                deadline_s = time.monotonic() + grace_s
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    # A signal as a shell states it.
    return failed if failed >= 0 else 128 - failed


def free_port(first_host: str) -> int:
    """A port for the ranks to meet on the first host: free where that is this host, else drawn."""
    if not is_this_host(first_host):
        return random.randrange(_FIRST_PORT, _LAST_PORT)
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def _address(first_host: str) -> str:
    """The first host as the others know it, who would look for themselves under ``localhost``."""
    is_loopback = first_host == "localhost" or first_host.startswith("127.")
    return socket.gethostname() if is_loopback else first_host


def main(given: Sequence[str] | None = None) -> int:
    """Start ``torchrun`` on all hosts and wait for their end; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", required=True, help="h1:4,h2:4, each with its ranks")
    parser.add_argument("--export", default="", help="names of variables that ranks need")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="-- then torchrun's")
    options = parser.parse_args(given)
    names = [name for name in options.export.split(",") if name in os.environ]
    try:
        return run_all(
            host_commands(
                options.hosts,
                options.arguments[1:],
                {name: os.environ[name] for name in names},
                ssh_shell(os.environ),
                free_port(parse_hosts(options.hosts)[0].name),
            )
        )
    except HvdprofError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
