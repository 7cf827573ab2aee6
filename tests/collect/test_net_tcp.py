import dataclasses
import secrets
import socket
import threading
import time

import pytest

from hvdprof.collect import net_tcp
from hvdprof.collect.clock.handshake import Offer
from hvdprof.collect.net_tcp import EchoServer, Effort, time_messages


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


@pytest.mark.timing
def test_every_size_is_timed_several_times() -> None:
    server = EchoServer(["127.0.0.1"], soon())
    found = time_messages(server.offer, Effort((4, 1000, 3_000_000), 0.02), soon())
    server.join()
    assert list(found) == [4, 1000, 3_000_000]
    for times in found.values():
        assert net_tcp.MIN_ROUNDS <= len(times) <= net_tcp.MAX_ROUNDS
        assert all(0 < time_ns < 5e9 for time_ns in times)
    assert min(found[3_000_000]) > min(found[4])


def _relay(target: socket.socket, source: socket.socket, delay_s: float) -> None:
    while data := source.recv(65536):
        time.sleep(delay_s)
        target.sendall(data)


def test_a_delay_on_the_way_is_found() -> None:
    server = EchoServer(["127.0.0.1"], soon(20))
    delay_s = 0.02
    with socket.create_server(("127.0.0.1", 0)) as listener:
        offer = dataclasses.replace(server.offer, port=listener.getsockname()[1])

        def relay() -> None:
            asker, _ = listener.accept()
            with asker, socket.create_connection(("127.0.0.1", server.offer.port)) as answerer:
                back = threading.Thread(target=_relay, args=(asker, answerer, 0.0))
                back.start()
                _relay(answerer, asker, delay_s)
                answerer.shutdown(socket.SHUT_WR)
                back.join()

        thread = threading.Thread(target=relay)
        thread.start()
        found = time_messages(offer, Effort((8,), 0.2), soon(20))
        thread.join()
    # Size and message go in two pieces at most, so one or two delays on the way there.
    median_s = sorted(found[8])[len(found[8]) // 2] / 1e9
    assert delay_s / 2 <= median_s <= 2 * delay_s


def test_larger_messages_are_left_out_on_a_slow_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_tcp, "SLOWEST_ROUND_S", 0.0)
    server = EchoServer(["127.0.0.1"], soon())
    assert list(time_messages(server.offer, Effort((4, 1000), 0.01), soon())) == [4]


def test_a_stranger_is_not_served() -> None:
    server = EchoServer(["127.0.0.1"], soon())
    wrong = dataclasses.replace(server.offer, token=secrets.token_hex(32))
    with pytest.raises(OSError, match="no answer on port"):
        time_messages(wrong, Effort((4,), 0.01), soon())
    assert list(time_messages(server.offer, Effort((4,), 0.01), soon())) == [4]


def test_no_answer_is_reported_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    offer = Offer(["127.0.0.1"], port, "00")
    with pytest.raises(OSError, match=r"127\.0\.0\.1: "):
        time_messages(offer, Effort((4,), 0.01), soon(1))


def test_the_number_of_rounds_is_bounded() -> None:
    effort = Effort((4,), 0.5)
    assert effort.rounds(0.0) == net_tcp.MAX_ROUNDS
    assert effort.rounds(0.05) == 10
    assert effort.rounds(0.2) == net_tcp.MIN_SHORT_ROUNDS
    assert effort.rounds(0.9) == net_tcp.MIN_ROUNDS
    assert effort.rounds(9.0) == 1


@pytest.mark.waits
def test_a_silent_stranger_holds_no_pair_up() -> None:
    server = EchoServer(["127.0.0.1"], soon(40))
    with socket.create_connection(("127.0.0.1", server.offer.port), 5):
        began_s = time.monotonic()
        assert list(time_messages(server.offer, Effort((4,), 0.01), soon(40))) == [4]
        server.join()
        assert time.monotonic() - began_s < 10
