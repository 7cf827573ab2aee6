"""The clock of one process as another reads it: short questions over TCP, the quickest counts.

For a round trip that left at t0 and was back at t1 on the asking side, the answer was read
somewhere between, so the offset ``answer - (t0 + t1) / 2`` is wrong by at most ``(t1 - t0) / 2``
whatever the network did. The round with the shortest trip has the smallest bound (Cristian,
"Probabilistic clock synchronization", Distributed Computing 3, 1989).
"""

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_ROUNDS = 100
MAX_ROUNDS_S = 0.2
_CONNECT_S = 2.0
_NONCE_BYTES = 16
_PROOF_BYTES = 32
_QUESTION = b"hvdprof?"
_ANSWER = struct.Struct("!q")

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Offer:
    """Where the answering process listens, and the secret (hex) that both sides must know."""

    addresses: Sequence[str]
    port: int
    token: str


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
        addresses: Names and addresses to offer; a lone loopback address is bound alone, else all
            interfaces are, since which of them the others can reach is not known.
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
        loopback_only = all(address.startswith("127.") for address in addresses)
        self._listener = _listener(addresses[0] if loopback_only else "", num_askers)
        token = secrets.token_hex(32)
        self.offer = Offer(tuple(addresses), self._listener.getsockname()[1], token)
        self._num_askers = num_askers
        self._deadline_s = deadline_s
        self._clock = clock
        self._thread = threading.Thread(target=self._serve, name="hvdprof-clock", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until everybody has been served, at most until the deadline."""
        self._thread.join(max(0.0, self._deadline_s - time.monotonic()) + 1.0)

    def _serve(self) -> None:
        num_served = 0
        with self._listener:
            while num_served < self._num_askers:
                remaining_s = self._deadline_s - time.monotonic()
                if remaining_s <= 0:
                    return
                self._listener.settimeout(remaining_s)
                try:
                    connection, _ = self._listener.accept()
                except OSError:
                    # The deadline: the askers that are missing report it themselves.
                    return
                # A connection that breaks, or a stranger, must not end the service.
                with connection, contextlib.suppress(OSError):
                    num_served += self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> bool:
        _prepare(connection, self._deadline_s, at_most_s=1.0)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(nonce)
        hello = _receive(connection, _NONCE_BYTES + _PROOF_BYTES)
        asker_nonce, proof = hello[:_NONCE_BYTES], hello[_NONCE_BYTES:]
        if not hmac.compare_digest(proof, _proof(self.offer.token, b"asker", nonce)):
            return False
        connection.sendall(_proof(self.offer.token, b"server", asker_nonce))
        for _ in range(MAX_ROUNDS):
            if not _receive_question(connection):
                break
            connection.sendall(_ANSWER.pack(self._clock()))
        return True


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
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            break
        try:
            where = address, offer.port
            with socket.create_connection(where, min(_CONNECT_S, remaining_s)) as connection:
                return _ask(connection, offer, deadline_s, clock)
        except OSError as error:
            failures.append(f"{address}: {error}")
    raise OSError(f"no clock answered on port {offer.port} ({'; '.join(failures) or 'too late'})")


def _ask(connection: socket.socket, offer: Offer, deadline_s: float, clock: Clock) -> PingResult:
    _prepare(connection, deadline_s)
    server_nonce = _receive(connection, _NONCE_BYTES)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(nonce + _proof(offer.token, b"asker", server_nonce))
    answer = _receive(connection, _PROOF_BYTES)
    if not hmac.compare_digest(answer, _proof(offer.token, b"server", nonce)):
        raise ConnectionError("another program answered")
    rounds: list[tuple[int, int, int]] = []
    end_s = min(deadline_s, time.monotonic() + MAX_ROUNDS_S)
    while len(rounds) < MAX_ROUNDS and (not rounds or time.monotonic() < end_s):
        before_ns = clock()
        connection.sendall(_QUESTION)
        (other_ns,) = _ANSWER.unpack(_receive(connection, _ANSWER.size))
        rounds.append((clock() - before_ns, before_ns, other_ns))
    rtt_ns, before_ns, other_ns = min(rounds)
    middle_ns = before_ns + rtt_ns // 2
    return PingResult(middle_ns, other_ns - middle_ns, (rtt_ns + 1) // 2, rtt_ns, len(rounds))


def _listener(address: str, num_askers: int) -> socket.socket:
    if address:
        return socket.create_server((address, 0), backlog=num_askers)
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", 0), family=socket.AF_INET6, backlog=num_askers, dualstack_ipv6=True
        )
    return socket.create_server(("", 0), backlog=num_askers)


def _prepare(connection: socket.socket, deadline_s: float, at_most_s: float = 3600.0) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(min(at_most_s, max(0.01, deadline_s - time.monotonic())))


def _proof(token: str, side: bytes, nonce: bytes) -> bytes:
    return hmac.digest(token.encode(), side + nonce, "sha256")


def _receive_question(connection: socket.socket) -> bool:
    try:
        return _receive(connection, len(_QUESTION)) == _QUESTION
    except ConnectionError:
        # The asker has had enough rounds and closed.
        return False


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return received
