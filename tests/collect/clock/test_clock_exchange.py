import socket
import threading
import time

import pytest

from hvdprof.collect.clock import clock_exchange
from hvdprof.collect.clock.clock_exchange import ClockExchange, ClockTurns, RankGroup, own_addresses


class Ranks:
    """Ranks as threads; a gather that not all join in time fails."""

    def __init__(self, size: int, timeout_s: float = 10.0) -> None:
        self.size = size
        self._values = [None] * size
        self._barrier = threading.Barrier(size, timeout=timeout_s)
        self.num_gathers = 0

    def group(self, rank: int) -> RankGroup:
        return RankGroup(rank, self.size, lambda value: self._all_gather(rank, value))

    def _all_gather(self, rank: int, value):
        self._values[rank] = value
        try:
            self._barrier.wait()
            found = list(self._values)
            if self._barrier.wait() == 0:
                self.num_gathers += 1
        except threading.BrokenBarrierError as error:
            raise OSError("not all ranks took part") from error
        return found

    def run(self, work) -> list:
        """What ``work(rank)`` returns or raises, by rank."""
        found = [None] * self.size

        def guarded(rank: int) -> None:
            try:
                found[rank] = work(rank)
            except OSError as error:
                found[rank] = error

        threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch):
    monkeypatch.setattr(clock_exchange, "own_addresses", lambda: ["127.0.0.1"])


def skewed(offset_ns: int):
    return lambda: time.monotonic_ns() + offset_ns


def exchange(ranks: Ranks, hosts: list[str], skews_ns: dict[str, int], **options) -> list:
    def work(rank: int):
        host = hosts[rank]
        clock = skewed(skews_ns.get(host, 0))
        group = ranks.group(rank)
        return ClockExchange(group, host=(host, ""), clock=clock, **options).run()

    return ranks.run(work)


def test_ranks_of_one_host_share_the_clock_and_need_one_gather():
    ranks = Ranks(3)
    found = exchange(ranks, ["a", "a", "a"], {})
    assert [(one.method, one.offset_ns, one.error_ns) for one in found] == [
        ("same-clock", 0, 0)
    ] * 3
    assert ranks.num_gathers == 1


def test_other_hosts_find_their_offset_and_their_ranks_share_it():
    skews_ns = {"b": -2_000_000_000, "c": 90_000_000_000}
    found = exchange(Ranks(6), ["a", "b", "a", "b", "c", "c"], skews_ns)
    assert [one.method for one in found] == ["same-clock", "tcp", "same-clock", "tcp", "tcp", "tcp"]
    for rank, host in ((1, "b"), (4, "c")):
        assert abs(found[rank].offset_ns + skews_ns[host]) <= found[rank].error_ns
    assert found[1] == found[3]
    assert found[4] == found[5]


def test_forced_every_rank_asks_for_itself():
    found = exchange(Ranks(3), ["a", "a", "a"], {}, force_tcp=True)
    assert [one.method for one in found] == ["same-clock", "tcp", "tcp"]
    assert found[1] != found[2]
    assert all(abs(one.offset_ns) <= one.error_ns for one in found)


def test_rank_0_that_cannot_listen_is_reported_on_the_ranks_that_need_it(monkeypatch):
    def refused(*_):
        raise OSError("no ports")

    monkeypatch.setattr(clock_exchange, "PingServer", refused)
    found = exchange(Ranks(3), ["a", "b", "a"], {})
    assert "rank 0 could not listen: no ports" in str(found[1])
    assert (found[0].method, found[2].method) == ("same-clock", "same-clock")


@pytest.mark.waits
def test_unreachable_rank_0_is_reported_within_the_time_limit(monkeypatch):
    monkeypatch.setattr(clock_exchange, "own_addresses", lambda: ["name.invalid"])
    begin_s = time.monotonic()
    found = exchange(Ranks(2), ["a", "b"], {}, timeout_s=0.5)
    assert isinstance(found[1], OSError)
    assert "could not read rank 0's clock" in str(found[1])
    assert found[0].method == "same-clock"
    assert time.monotonic() - begin_s < 8


def test_turns_at_start_and_end():
    ranks = Ranks(2)

    def work(rank: int):
        turns = ClockTurns(lambda: ranks.group(rank), force_tcp=True)
        return turns.take(), turns.take()

    for start, end in ranks.run(work):
        assert end.monotonic_ns > start.monotonic_ns
        assert abs(end.offset_ns) <= end.error_ns


def test_turn_after_a_failed_start_says_so_and_gathers_nothing():
    def no_group():
        raise OSError("call start() after hvd.init()")

    turns = ClockTurns(no_group, force_tcp=False)
    with pytest.raises(OSError, match=r"after hvd\.init"):
        turns.take()
    with pytest.raises(OSError, match="not compared at the start"):
        turns.take()


def test_a_single_rank_needs_no_peer():
    assert ClockExchange(RankGroup(0, 1, lambda value: [value])).run().method == "same-clock"


def test_own_addresses_begin_with_the_name_and_leave_loopback_out():
    addresses = own_addresses()
    assert addresses[0] == socket.gethostname()
    assert not any(address.startswith("127.") for address in addresses[1:])
