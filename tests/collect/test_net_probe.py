import itertools
import json
import socket
import threading
from typing import Any

import pytest

from hvdprof.collect.clock.clock_exchange import RankGroup
from hvdprof.collect.net_probe import MARK, Probe, rounds_of_pairs
from hvdprof.collect.net_tcp import Effort


@pytest.mark.parametrize("size", range(2, 10))
def test_every_pair_meets_once_and_no_rank_is_in_two_pairs(size: int) -> None:
    rounds = list(rounds_of_pairs(size))
    assert sorted(itertools.chain(*rounds)) == list(itertools.combinations(range(size), 2))
    for pairs in rounds:
        ranks = list(itertools.chain(*pairs))
        assert len(set(ranks)) == len(ranks)
    assert len(rounds) == (size - 1 if size % 2 == 0 else size)


def test_one_rank_has_no_pair() -> None:
    assert list(rounds_of_pairs(1)) == []


class _Meeting:
    """Threads that stand in for ranks: what they gather and when they meet."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=30)
        self._values: list[Any] = [None] * size

    def group(self, rank: int) -> RankGroup:
        def all_gather(value: Any) -> list[Any]:
            self._values[rank] = json.loads(json.dumps(value))
            self._barrier.wait()
            values = list(self._values)
            self._barrier.wait()
            return values

        return RankGroup(rank, self.size, all_gather)


class _Horovod:
    """Stands in for Horovod: every call of a set of ranks waits for all of them."""

    Sum = "sum"

    def __init__(self, size: int) -> None:
        self.global_process_set = threading.Barrier(size, timeout=30)
        self._sets: dict[tuple[int, ...], threading.Barrier] = {}
        self._lock = threading.Lock()

    def add_process_set(self, ranks: list[int]) -> threading.Barrier:
        with self._lock:
            made = threading.Barrier(len(ranks), timeout=30)
            return self._sets.setdefault(tuple(ranks), made)

    def remove_process_set(self, process_set: threading.Barrier) -> None:
        pass

    def broadcast_(self, tensor: Any, root_rank: int, name: str, process_set: Any) -> None:
        process_set.wait()

    def allreduce_(self, tensor: Any, name: str, op: str) -> None:
        self.global_process_set.wait()


def _records(size: int, printed: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(MARK)) for line in printed.splitlines()]


@pytest.mark.torch
@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_pairs_are_printed_by_rank_0_alone(
    size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    meeting, horovod = _Meeting(size), _Horovod(size)
    effort = Effort((4, 4096), 0.01)
    ranks = [
        threading.Thread(target=Probe(meeting.group(rank), horovod, "cpu", effort).run)
        for rank in range(size)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
    reported = _records(size, capsys.readouterr().out)
    assert reported[0] == {"what": "hosts", "hosts": [socket.gethostname()] * size}
    assert reported[-1] == {"what": "end"}
    of_pairs = {
        (one["what"], min(one["from"], one["to"]), max(one["from"], one["to"]), one["size_bytes"])
        for one in reported
        if "from" in one
    }
    pairs = list(itertools.combinations(range(size), 2))
    assert of_pairs == {
        (what, *pair, length)
        for what in ("tcp", "broadcast")
        for pair in pairs
        for length in effort.sizes
    }
    assert [one["size_bytes"] for one in reported if one["what"] == "allreduce"] == [4, 4096]
    assert all(time_ns > 0 for one in reported for time_ns in one.get("times_ns", ()))
