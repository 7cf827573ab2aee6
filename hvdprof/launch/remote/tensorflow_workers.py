"""``python -m hvdprof.launch.remote.tensorflow_workers --np 2 -- PROGRAM``: workers on this host.

Each runs the program with its place in ``TF_CONFIG``, by which workers of ``tf.distribute`` find
each other. This ends as the first of them that fails. With ``--parameter-server`` a coordinator
and a parameter server run it too, and its end is that of the coordinator.
"""

import argparse
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from hvdprof.launch.remote.torchrun_hosts import run_all
from hvdprof.rundir.plan import TF_PARAMETER_SERVER, num_beside

_LOOPBACK = "127.0.0.1"


def worker_variables(ports: Sequence[int], rank: int) -> dict[str, str]:
    """The variables of one worker: its ``TF_CONFIG``, and rank and size as torchrun names them."""
    place, size = str(rank), str(len(ports))
    return {
        **_task({"worker": ports}, "worker", rank),
        "RANK": place,
        "WORLD_SIZE": size,
        "LOCAL_RANK": place,
        "LOCAL_WORLD_SIZE": size,
    }


def parameter_server_variables(ports: Sequence[int]) -> list[dict[str, str]]:
    """The ``TF_CONFIG`` of each process of ParameterServerStrategy.

    The coordinator comes first, then the parameter server, then the workers.

    Args:
        ports: One per process, in that order, on this host.
    """
    cluster = {"chief": ports[:1], "ps": ports[1:2], "worker": ports[2:]}
    tasks = [(kind, index) for kind, own in cluster.items() for index in range(len(own))]
    return [_task(cluster, kind, index) for kind, index in tasks]


def _task(cluster: Mapping[str, Sequence[int]], kind: str, index: int) -> dict[str, str]:
    addresses = {name: [f"{_LOOPBACK}:{port}" for port in own] for name, own in cluster.items()}
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": addresses, "task": task})}


def free_ports(number: int) -> list[int]:
    """Different ports of this host that nothing listens at now."""
    with ExitStack() as held:
        servers = [socket.create_server((_LOOPBACK, 0)) for _ in range(number)]
        for server in servers:
            held.enter_context(server)
        return [int(server.getsockname()[1]) for server in servers]


def main(given: Sequence[str] | None = None) -> int:
    """Start all workers and wait for their end; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--np", type=int, required=True, help="the number of workers")
    parser.add_argument(
        "--parameter-server", action="store_true", help="with a coordinator and a parameter server"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- then what each runs")
    options = parser.parse_args(given)
    if options.parameter_server:
        places = parameter_server_variables(
            free_ports(options.np + num_beside(TF_PARAMETER_SERVER))
        )
    else:
        ports = free_ports(options.np)
        places = [worker_variables(ports, rank) for rank in range(options.np)]
    return run_all(
        [
            ["env", *(f"{name}={value}" for name, value in own.items()), *options.program[1:]]
            for own in places
        ],
        serve_first=options.parameter_server,
    )


if __name__ == "__main__":
    sys.exit(main())
