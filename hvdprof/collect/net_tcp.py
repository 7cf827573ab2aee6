"""Messages between two processes over plain TCP: there and back, timed on the asking side.

Half of a round trip counts as the way of one message (the convention of ping-pong benchmarks:
Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994).
"""

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hvdprof.collect.clock.clock_ping import AskerService
from hvdprof.collect.clock.handshake import Offer, connect, receive, receive_into

MIN_ROUNDS = 3
MIN_SHORT_ROUNDS, SHORT_ROUND_S = 6, 0.25
"""Enough for an interval of their median, where a round is short."""
MAX_ROUNDS = 30
SLOWEST_ROUND_S = 1.0
"""A round that takes longer is repeated once, and larger messages are skipped."""

_SIZE = struct.Struct("!q")
_END = 0


@dataclass(frozen=True, slots=True)
class Effort:
    """The sizes of messages, ascending, and the seconds that each size may take."""

    sizes: Sequence[int]
    seconds: float

    def rounds(self, round_s: float) -> int:
        """How often a round of that length is repeated: once, or at least three times."""
        if round_s > SLOWEST_ROUND_S:
            return 1
        least = MIN_SHORT_ROUNDS if round_s < SHORT_ROUND_S else MIN_ROUNDS
        return max(least, min(MAX_ROUNDS, int(self.seconds / max(round_s, 1e-6))))


class EchoServer:
    """Sends every message back, to one asker that knows the token.

    Args:
        addresses: Names and addresses to offer, as ``handshake.listen`` takes them.
        deadline_s: On ``time.monotonic``; the server ends then at the latest.

    Raises:
        OSError: No port could be opened.
    """

    def __init__(self, addresses: Sequence[str], deadline_s: float) -> None:
        left_s = max(0.01, deadline_s - time.monotonic())
        # A large message may take long on a slow link.
        self._service = AskerService(addresses, 1, deadline_s, _echo, at_most_s=left_s)
        self.offer = self._service.offer

    def join(self) -> None:
        """Wait until the asker has ended, at most until the deadline."""
        self._service.join()


def time_messages(offer: Offer, effort: Effort, deadline_s: float) -> Mapping[int, list[int]]:
    """One-way times of messages by size, one number per round, ns.

    Args:
        offer: Where the echo server listens; its addresses are tried in turn.
        effort: Which sizes, and for how long.
        deadline_s: On ``time.monotonic``; no wait goes beyond it.

    Raises:
        OSError: No address answered, or the connection broke before the first size was done.
    """
    failures = []
    for address in offer.addresses:
        try:
            with connect(address, offer, deadline_s) as connection:
                return _time_all(connection, effort)
        except OSError as error:
            failures.append(f"{address}: {error}")
    raise OSError(f"no answer on port {offer.port} ({'; '.join(failures)})")


def timed_rounds(send_and_wait: Callable[[], None], number: int) -> list[int]:
    """Half of the time of each of some round trips, ns."""
    times = []
    for _ in range(number):
        before_ns = time.monotonic_ns()
        send_and_wait()
        times.append((time.monotonic_ns() - before_ns) // 2)
    return times


def _time_all(connection: socket.socket, effort: Effort) -> dict[int, list[int]]:
    times_ns: dict[int, list[int]] = {}
    for size in effort.sizes:
        message, answer = bytes(size), memoryview(bytearray(size))

        def there_and_back(message: bytes = message, answer: memoryview = answer) -> None:
            connection.sendall(_SIZE.pack(len(message)))
            connection.sendall(message)
            receive_into(connection, answer)

        # The first round opens TCP's window, which training keeps open, and is not counted.
        (first_ns,) = timed_rounds(there_and_back, 1)
        first_s = 2 * first_ns / 1e9
        times_ns[size] = timed_rounds(there_and_back, effort.rounds(first_s))
        if first_s > SLOWEST_ROUND_S:
            break
    connection.sendall(_SIZE.pack(_END))
    return times_ns


def _echo(connection: socket.socket) -> None:
    while size := _SIZE.unpack(receive(connection, _SIZE.size))[0]:
        message = memoryview(bytearray(size))
        receive_into(connection, message)
        connection.sendall(message)
