"""``python -m hvdprof.launch.launchers.gloo_rendezvous HOSTS COMMAND...``: where Gloo ranks meet.

Horovod's rendezvous server runs in this process while the command does; its address and port are
in ``HOROVOD_GLOO_RENDEZVOUS_ADDR`` and ``_PORT``. The server listens on all addresses, as
``horovodrun``'s does.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from hvdprof.collect.clock.clock_exchange import own_addresses
from hvdprof.errors import UsageError
from hvdprof.launch.plan.hosts import Host, parse_hosts

ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"

_DISCARD_PORT = 9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server and the command; the exit code of the command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) < 2:
        raise UsageError("Give the hosts with their ranks, and a command.")
    hosts, command = parse_hosts(given[0]), given[1:]
    port = _start_server(given[0])
    environment = {**os.environ, ADDRESS: own_address(hosts), PORT: str(port)}
    child = subprocess.Popen(command, env=environment)

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    exit_code = child.wait()
    return exit_code if exit_code >= 0 else 128 - exit_code


def own_address(hosts: Sequence[Host]) -> str:
    """The address of this host that ranks on the given hosts reach it at."""
    here = {socket.gethostname(), socket.gethostname().split(".")[0], "localhost"}
    others = [host.name for host in hosts if host.name not in here]
    if not others:
        return "127.0.0.1"
    # Nothing is sent: the kernel only looks up by which interface it would go.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((others[0], _DISCARD_PORT))
        except socket.gaierror:
            # Slurm reaches nodes by addresses that their names need not resolve to.
            return next(iter(own_addresses()[1:]), "127.0.0.1")
        return str(asking.getsockname()[0])


def _start_server(hosts: str) -> int:
    from horovod.runner.common.util import hosts as horovod_hosts
    from horovod.runner.http.http_server import RendezvousServer

    given = horovod_hosts.parse_hosts(hosts)
    server = RendezvousServer(0)
    port = int(server.start())
    server.init(horovod_hosts.get_host_assignments(given, sum(host.slots for host in given)))
    return port


if __name__ == "__main__":
    # The server's thread does not end by itself.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
