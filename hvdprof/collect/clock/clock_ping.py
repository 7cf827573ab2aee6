"""The clock of one process as others read it in turn: the shortest of many round trips over TCP.

For a round trip that left at t0 and was back at t1 on the asking side, the answer was read
somewhere between, so the offset ``answer - (t0 + t1) / 2`` is wrong by at most ``(t1 - t0) / 2``
however the network behaved. The round with the shortest trip has the smallest bound (Cristian,
"Probabilistic clock synchronization", Distributed Computing 3, 1989).
"""

import contextlib
import queue
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdprof.collect.clock.handshake import Greeting, Offer, connect, listen, prepare, receive

MAX_ROUNDS = 100
MAX_ROUNDS_S = 0.2
MOST_MESSAGE_S = 1.0
_QUESTION = b"hvdprof?"
_ANSWER = struct.Struct("!q")

Clock = Callable[[], int]

GREETING_S = 2.0
"""How long the whole greeting of an asker may take."""

_MOST_GREETINGS = 128


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


class AskerService:
    """Listens until enough askers have been served, or until a deadline.

    Args:
        addresses: Names and addresses to offer, as ``handshake.listen`` takes them.
        num_askers: After so many have been served the service ends.
        deadline_s: On ``time.monotonic``; the service ends then at the latest.
        serve: Serves one asker; called in a thread of the service, never twice at once.
        at_most_s: How long a single message of an asker may take.

    Raises:
        OSError: No port could be opened.
        RuntimeError: The system refuses a thread.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        num_askers: int,
        deadline_s: float,
        serve: Callable[[socket.socket], None],
        *,
        at_most_s: float,
    ) -> None:
        self._listener, self.offer = listen(addresses, max(num_askers, _MOST_GREETINGS))
        self._num_askers, self._deadline_s = num_askers, deadline_s
        self._serve_one, self._at_most_s = serve, at_most_s
        self._greetings: dict[socket.socket, Greeting] = {}
        self._proven: queue.SimpleQueue[Greeting | None] = queue.SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._greeter = threading.Thread(target=self._greet, name="hvdprof-greet", daemon=True)
        self._server = threading.Thread(target=self._serve, name="hvdprof-serve", daemon=True)
        try:
            self._server.start()
            self._greeter.start()
        except RuntimeError:
            self._listener.close()
            self._proven.put(None)
            raise

    def join(self) -> None:
        """Wait until every asker has been served, at most until the deadline."""
        for thread in (self._server, self._greeter):
            thread.join(max(0.0, self._deadline_s - time.monotonic()) + 1.0)

    def _serve(self) -> None:
        num_served = 0
        with self._wake:
            while num_served < self._num_askers and (asker := self._proven.get()) is not None:
                # A broken connection must not end the service.
                with asker.connection, contextlib.suppress(OSError):
                    prepare(asker.connection, self._deadline_s, self._at_most_s)
                    asker.answer()
                    num_served += 1
                    self._serve_one(asker.connection)

    def _greet(self) -> None:
        with self._listener, self._woken, selectors.DefaultSelector() as selector:
            self._listener.setblocking(False)
            selector.register(self._listener, selectors.EVENT_READ)
            # Readable once the other thread has ended.
            selector.register(self._woken, selectors.EVENT_READ)
            is_open = True
            while is_open and (now_s := time.monotonic()) < self._deadline_s:
                until_s = [greeting.until_s for greeting in self._greetings.values()]
                for key, _ in selector.select(min(self._deadline_s, *until_s, now_s + 60) - now_s):
                    if key.fileobj is self._woken:
                        is_open = False
                    elif key.fileobj is self._listener:
                        self._accept(selector)
                    # It may have been dropped for a newer one just now.
                    elif greeting := self._greetings.get(key.fileobj):  # type: ignore[call-overload]
                        self._take(greeting, selector)
                self._drop_late(selector)
            for connection in self._greetings:
                connection.close()
        self._proven.put(None)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            greeting = Greeting(connection, self.offer.token, time.monotonic() + GREETING_S)
            self._greetings[connection] = greeting
            selector.register(connection, selectors.EVENT_READ)
            if len(self._greetings) > _MOST_GREETINGS:
                self._drop(next(iter(self._greetings.values())), selector)

    def _take(self, greeting: Greeting, selector: selectors.BaseSelector) -> None:
        try:
            is_proven = greeting.take()
        except OSError:
            self._drop(greeting, selector)
            return
        if is_proven:
            selector.unregister(greeting.connection)
            del self._greetings[greeting.connection]
            self._proven.put(greeting)

    def _drop_late(self, selector: selectors.BaseSelector) -> None:
        now_s = time.monotonic()
        for greeting in [
            greeting for greeting in self._greetings.values() if greeting.until_s <= now_s
        ]:
            self._drop(greeting, selector)

    def _drop(self, greeting: Greeting, selector: selectors.BaseSelector) -> None:
        selector.unregister(greeting.connection)
        del self._greetings[greeting.connection]
        greeting.connection.close()
