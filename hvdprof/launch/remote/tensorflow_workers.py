"""``python -m hvdprof.launch.remote.tensorflow_workers --np 2 -- PROGRAM``: workers on this host.

Each runs the program with its place in ``TF_CONFIG``, by which workers of ``tf.distribute`` find
each other. This ends as the first of them that fails.
"""

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from hvdprof.launch.remote.torchrun_hosts import run_all

_LOOPBACK = "127.0.0.1"


def worker_variables(ports: Sequence[int], rank: int) -> dict[str, str]:
    """The variables of one worker: its ``TF_CONFIG``, and rank and size as torchrun names them.

    Args:
        ports: One per worker, in the order of ranks, on this host.
        rank: That of the worker.
    """
    cluster = {"worker": [f"{_LOOPBACK}:{port}" for port in ports]}
    task = {"type": "worker", "index": rank}
    place, size = str(rank), str(len(ports))
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": task}),
        "RANK": place,
        "WORLD_SIZE": size,
        "LOCAL_RANK": place,
        "LOCAL_WORLD_SIZE": size,
    }


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
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- then what each runs")
    options = parser.parse_args(given)
    ports = free_ports(options.np)
    return run_all(
        [
            [
                *(
                    "env",
                    *(f"{name}={value}" for name, value in worker_variables(ports, rank).items()),
                ),
                *options.program[1:],
            ]
            for rank in range(options.np)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
