"""The clock of one process as another reads it: the shortest of many round trips over TCP.

For a round trip that left at t0 and was back at t1 on the asking side, the answer was read
somewhere between, so the offset ``answer - (t0 + t1) / 2`` is wrong by at most ``(t1 - t0) / 2``
however the network behaved. The round with the shortest trip has the smallest bound (Cristian,
"Probabilistic clock synchronization", Distributed Computing 3, 1989).
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdprof.collect.clock.asker_service import AskerService
from hvdprof.collect.clock.handshake import Offer, connect, receive

__all__ = ["Clock", "Offer", "PingResult", "PingServer", "ping"]

MAX_ROUNDS = 100
MAX_ROUNDS_S = 0.2
MOST_MESSAGE_S = 1.0
_QUESTION = b"hvdprof?"
_ANSWER = struct.Struct("!q")

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PingResult:
    """The other clock at the asker's ``monotonic_ns``: ``other = own + offset_ns ± error_ns``."""

    monotonic_ns: int
    offset_ns: int
    error_ns: int
    min_rtt_ns: int
    num_exchanges: int


class PingServer:
    """Answers with its clock, to askers that know the token, one after the other.

    Serving them in turn keeps every round trip free of the others' traffic.

    Args:
        addresses: Names and addresses to offer, as ``handshake.listen`` takes them.
        num_askers: After so many have been served the server ends.
        deadline_s: On ``time.monotonic``; the server ends then at the latest.
        clock: The clock to answer with, ns.

    Raises:
        OSError: No port could be opened.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        num_askers: int,
        deadline_s: float,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._clock = clock
        self._service = AskerService(
            addresses, num_askers, deadline_s, self._serve_one, at_most_s=MOST_MESSAGE_S
        )
        self.offer = self._service.offer

    def join(self) -> None:
        """Wait until every asker has been served, at most until the deadline."""
        self._service.join()

    def _serve_one(self, connection: socket.socket) -> None:
        for _ in range(MAX_ROUNDS):
            if not _receive_question(connection):
                return
            connection.sendall(_ANSWER.pack(self._clock()))


def ping(offer: Offer, deadline_s: float, clock: Clock = time.monotonic_ns) -> PingResult:
    """Read the other side's clock in many round trips.

    Args:
        offer: Where it listens; its addresses are tried in turn.
        deadline_s: On ``time.monotonic``; no wait goes beyond it.
        clock: The own clock, ns.

    Raises:
        OSError: No address answered as it should before the deadline.
    """
    failures = []
    for address in offer.addresses:
        if time.monotonic() >= deadline_s:
            break
        try:
            with connect(address, offer, deadline_s) as connection:
                return _ask(connection, deadline_s, clock)
        except OSError as error:
            failures.append(f"{address}: {error}")
    raise OSError(f"no clock answered on port {offer.port} ({'; '.join(failures) or 'too late'})")


def _ask(connection: socket.socket, deadline_s: float, clock: Clock) -> PingResult:
    rounds: list[tuple[int, int, int]] = []
    end_s = min(deadline_s, time.monotonic() + MAX_ROUNDS_S)
    while len(rounds) < MAX_ROUNDS and (not rounds or time.monotonic() < end_s):
        before_ns = clock()
        connection.sendall(_QUESTION)
        (other_ns,) = _ANSWER.unpack(receive(connection, _ANSWER.size))
        rounds.append((clock() - before_ns, before_ns, other_ns))
    rtt_ns, before_ns, other_ns = min(rounds)
    middle_ns = before_ns + rtt_ns // 2
    return PingResult(middle_ns, other_ns - middle_ns, (rtt_ns + 1) // 2, rtt_ns, len(rounds))


def _receive_question(connection: socket.socket) -> bool:
    try:
        return receive(connection, len(_QUESTION)) == _QUESTION
    except ConnectionError:
        # The asker has had enough rounds and closed.
        return False
