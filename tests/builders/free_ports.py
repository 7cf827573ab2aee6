"""Ports of this host for a server that is started later, and cannot be asked for its own."""

import contextlib
import random
import socket
from pathlib import Path

_LOWEST = 10_240
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(number: int) -> list[int]:
    """Different ports on which nothing listens.

    They lie below those that the kernel usually gives to connections: between this call and the
    start of the server, no other process gets one of them by chance.
    """
    end = max(int(_RANGE.read_text().split()[0]), 2 * _LOWEST)
    ports: list[int] = []
    # Workers of the tests are seeded alike.
    draw = random.SystemRandom()
    while len(ports) < number:
        port = draw.randrange(_LOWEST, end)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports = list({*ports, port})
    return ports
