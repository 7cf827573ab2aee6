import contextlib
import dataclasses
import secrets
import socket
import threading
import time

import pytest

from hvdprof.collect.clock import clock_exchange, clock_ping, handshake
from hvdprof.collect.clock.clock_ping import PingServer, ping


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def skewed(offset_ns: int):
    return lambda: time.monotonic_ns() + offset_ns


@pytest.mark.parametrize("offset_ns", [0, 5_000_000_000, -3_600_000_000_000])
def test_offset_is_found_within_its_own_error(offset_ns):
    server = PingServer(["127.0.0.1"], 1, soon(), clock=skewed(offset_ns))
    result = ping(server.offer, soon())
    server.join()
    assert abs(result.offset_ns - offset_ns) <= result.error_ns
    assert result.error_ns * 2 >= result.min_rtt_ns > 0
    assert 1 <= result.num_exchanges <= clock_ping.MAX_ROUNDS


def test_askers_are_served_in_turn():
    server = PingServer(["127.0.0.1"], 4, soon(), clock=skewed(7_000_000_000))
    found = []
    askers = [
        threading.Thread(target=lambda: found.append(ping(server.offer, soon()))) for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 4
    assert all(abs(one.offset_ns - 7_000_000_000) <= one.error_ns for one in found)


def test_stranger_gets_no_answer_and_does_not_end_the_service():
    server = PingServer(["127.0.0.1"], 1, soon(10))
    with socket.create_connection(("127.0.0.1", server.offer.port), 5) as stranger:
        stranger.settimeout(5)
        stranger.recv(1024)
        stranger.sendall(b"\0" * 48)
        assert stranger.recv(1024) == b""
    wrong = dataclasses.replace(server.offer, token=secrets.token_hex(32))
    with pytest.raises(OSError, match="no clock answered"):
        ping(wrong, soon())
    assert ping(server.offer, soon()).num_exchanges > 0


def test_asker_notices_that_another_program_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"x" * 200)
                connection.recv(1024)

        thread = threading.Thread(target=answer)
        thread.start()
        offer = handshake.Offer(["127.0.0.1"], listener.getsockname()[1], "token")
        with pytest.raises(OSError, match="another program answered"):
            ping(offer, soon())
        thread.join()


def test_next_address_is_tried():
    server = PingServer(["127.0.0.1"], 1, soon())
    offer = dataclasses.replace(server.offer, addresses=["name.invalid", "127.0.0.1"])
    assert ping(offer, soon()).num_exchanges > 0


@pytest.mark.waits
def test_no_rank_waits_beyond_the_deadline():
    begin_s = time.monotonic()
    server = PingServer(["127.0.0.1"], 1, soon(0.2))
    server.join()
    with pytest.raises(OSError, match="no clock answered"):
        ping(server.offer, soon(0.2))
    assert time.monotonic() - begin_s < 3


@pytest.mark.waits
def test_silent_and_dripping_strangers_hold_nobody_up():
    server = PingServer(["127.0.0.1"], 1, soon(30))
    with contextlib.ExitStack() as strangers:
        connected = [
            strangers.enter_context(socket.create_connection(("127.0.0.1", server.offer.port), 5))
            for _ in range(150)
        ]
        stop = threading.Event()

        def drip():
            while not stop.wait(0.2):
                for stranger in connected[:20]:
                    with contextlib.suppress(OSError):
                        stranger.send(b"x")

        dripping = threading.Thread(target=drip)
        dripping.start()
        began_s = time.monotonic()
        assert ping(server.offer, soon(30)).num_exchanges > 0
        server.join()
        assert time.monotonic() - began_s < 5
        stop.set()
        dripping.join()


@pytest.mark.waits
def test_a_dripping_stranger_is_dropped():
    server = PingServer(["127.0.0.1"], 1, soon(30))
    with socket.create_connection(("127.0.0.1", server.offer.port), 5) as stranger:
        stranger.settimeout(0.2)
        began_s = time.monotonic()
        is_open = True
        while is_open and time.monotonic() - began_s < 20:
            try:
                stranger.send(b"x")
                is_open = stranger.recv(100) != b""
            except TimeoutError:
                continue
            except OSError:
                is_open = False
        assert not is_open
        assert time.monotonic() - began_s < 10
    assert ping(server.offer, soon()).num_exchanges > 0


@pytest.mark.waits
def test_an_asker_leaves_a_server_that_drips():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        offer = handshake.Offer(["127.0.0.1"], listener.getsockname()[1], "00")

        def drip():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                for _ in range(100):
                    connection.sendall(b"x")
                    time.sleep(1)

        threading.Thread(target=drip, daemon=True).start()
        began_s = time.monotonic()
        with pytest.raises(OSError, match="no clock answered"):
            ping(offer, soon(12))
        assert time.monotonic() - began_s < 11


def test_the_service_listens_on_one_address_where_it_is_known():
    with handshake.listen(["127.0.0.2"], 1)[0] as one:
        assert one.getsockname()[0] == "127.0.0.2"
    # A name may lead to loopback alone.
    with handshake.listen([socket.gethostname()], 1)[0] as every:
        assert every.getsockname()[0] in ("::", "0.0.0.0")


def test_the_interface_of_the_job_is_that_of_horovod(monkeypatch):
    addresses = {"ib0": "10.1.2.3", "lo": "127.0.0.1"}
    monkeypatch.setattr(
        clock_exchange, "_interface_address", lambda probe, name: addresses.get(name)
    )
    assert clock_exchange.job_addresses({"HOROVOD_GLOO_IFACE": "ib0"}) == ["10.1.2.3"]
    for name in ("lo", "gone", ""):
        found = clock_exchange.job_addresses({"HOROVOD_GLOO_IFACE": name})
        assert found == clock_exchange.own_addresses()
