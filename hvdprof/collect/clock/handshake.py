"""TCP between two processes of a job: the address of one, and the proof of identity of both.

Each side proves that it knows the token by a keyed digest over the other side's random number. So
no other program is served, and no answer of another program is believed.
"""

import hmac
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

_CONNECT_S = 2.0
_GREETED_S = 5.0
_NONCE_BYTES = 16
_PROOF_BYTES = 32


@dataclass(frozen=True, slots=True)
class Offer:
    """Where the answering process listens, and the secret (hex) that both sides must know."""

    addresses: Sequence[str]
    port: int
    token: str


def listen(addresses: Sequence[str], backlog: int) -> tuple[socket.socket, Offer]:
    """A socket that listens, and the offer of it with a new token.

    Args:
        addresses: Names and addresses to offer. A single address is bound alone, and so is the
            first where all are loopback; else all interfaces, since it is unknown which of them the
            others can reach.
        backlog: How many may wait to be served.

    Raises:
        OSError: No port could be opened.
    """
    loopback_only = all(address.startswith("127.") for address in addresses)
    is_bound = loopback_only or (len(addresses) == 1 and _is_address(addresses[0]))
    listener = _listener(addresses[0] if is_bound else "", backlog)
    token = os.urandom(32).hex()
    return listener, Offer(tuple(addresses), listener.getsockname()[1], token)


class Greeting:
    """The answering side's part of the greeting of one asker, on a connection that never blocks.

    ``until_s`` on ``time.monotonic`` is the deadline for all of it.

    Raises:
        OSError: The connection broke.
    """

    def __init__(self, connection: socket.socket, token: str, until_s: float) -> None:
        self.connection, self.until_s = connection, until_s
        self._token = token
        self._nonce = os.urandom(_NONCE_BYTES)
        self._hello = b""
        # A new connection has room for so few bytes.
        connection.sendall(self._nonce)

    def take(self) -> bool:
        """Take what has arrived; whether the asker has proven now that it knows the token.

        Raises:
            OSError: The connection broke, or the proof is wrong.
        """
        piece = self.connection.recv(_NONCE_BYTES + _PROOF_BYTES - len(self._hello))
        if not piece:
            raise ConnectionError("the connection was closed")
        self._hello += piece
        if len(self._hello) < _NONCE_BYTES + _PROOF_BYTES:
            return False
        proof = self._hello[_NONCE_BYTES:]
        if not hmac.compare_digest(proof, _proof(self._token, b"asker", self._nonce)):
            raise ConnectionError("another program asked")
        return True

    def answer(self) -> None:
        """Prove to the asker that this side knows the token, too.

        Raises:
            OSError: The connection broke.
        """
        self.connection.sendall(_proof(self._token, b"server", self._hello[:_NONCE_BYTES]))


def connect(address: str, offer: Offer, deadline_s: float) -> socket.socket:
    """A connection to the process that made an offer; the asking side's part of the greeting.

    Args:
        address: One of the offer's addresses.
        offer: The offer.
        deadline_s: On ``time.monotonic``; no wait goes beyond it.

    Raises:
        OSError: No program answers there, or another one does.
    """
    timeout_s = min(_CONNECT_S, max(0.01, deadline_s - time.monotonic()))
    connection = socket.create_connection((address, offer.port), timeout_s)
    try:
        prepare(connection, deadline_s)
        # A server of the job greets at once; its answer comes when it is this asker's turn.
        greeted_s = min(deadline_s, time.monotonic() + _GREETED_S)
        server_nonce = _receive_until(connection, _NONCE_BYTES, greeted_s)
        nonce = os.urandom(_NONCE_BYTES)
        connection.sendall(nonce + _proof(offer.token, b"asker", server_nonce))
        answer = _receive_until(connection, _PROOF_BYTES, deadline_s)
        prepare(connection, deadline_s)
        if not hmac.compare_digest(answer, _proof(offer.token, b"server", nonce)):
            raise ConnectionError("another program answered")
    except OSError:
        connection.close()
        raise
    return connection


def prepare(connection: socket.socket, deadline_s: float, at_most_s: float = 3600.0) -> None:
    """Send small messages at once, and let no wait go beyond a deadline."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(min(at_most_s, max(0.01, deadline_s - time.monotonic())))


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly as many bytes.

    Raises:
        ConnectionError: The other side closed before.
        OSError: The connection broke, or took too long.
    """
    buffer = bytearray(size)
    receive_into(connection, memoryview(buffer))
    return bytes(buffer)


def receive_into(connection: socket.socket, buffer: memoryview) -> None:
    """Fill a buffer; see ``receive``."""
    while len(buffer):
        number = connection.recv_into(buffer)
        if not number:
            raise ConnectionError("the connection was closed")
        buffer = buffer[number:]


def _is_address(text: str) -> bool:
    try:
        socket.inet_aton(text)
    except OSError:
        return False
    return True


def _receive_until(connection: socket.socket, size: int, deadline_s: float) -> bytes:
    """Exactly as many bytes before a deadline, however they arrive.

    Raises:
        OSError: The connection broke, was closed, or took too long.
    """
    content = b""
    while len(content) < size:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        piece = connection.recv(size - len(content))
        if not piece:
            raise ConnectionError("the connection was closed")
        content += piece
    return content


def _listener(address: str, backlog: int) -> socket.socket:
    if address:
        return socket.create_server((address, 0), backlog=backlog)
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
        )
    return socket.create_server(("", 0), backlog=backlog)


def _proof(token: str, side: bytes, nonce: bytes) -> bytes:
    return hmac.digest(token.encode(), side + nonce, "sha256")
