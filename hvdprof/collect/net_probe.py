"""``python -m hvdprof.collect.net_probe``: how long messages take between hosts.

The launcher starts one rank on every host. All pairs are measured over plain TCP and through
Horovod (broadcasts to and fro), in rounds in which no host is in two pairs; then the allreduce of
all. Rank 0 prints one marked line for every pair and size, so that the job's own output carries
them, without a file system that the hosts share.
"""

import argparse
import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING

from hvdprof.collect.clock.clock_exchange import RankGroup, job_addresses
from hvdprof.collect.clock.handshake import Offer
from hvdprof.collect.clock.job_group import horovod_ranks
from hvdprof.collect.net_tcp import SLOWEST_ROUND_S, EchoServer, Effort, time_messages, timed_rounds
from hvdprof.collect.session_factory import own_identity

if TYPE_CHECKING:
    from torch import Tensor

MARK = "hvdprof-net: "
TCP, BROADCAST, ALLREDUCE = "tcp", "broadcast", "allreduce"
WRONG_SIZE_EXIT_CODE = 3

PAIR_DEADLINE_S = 45.0

Pair = tuple[int, int]


class Probe:
    """The measurement as one of its ranks."""

    def __init__(self, group: RankGroup, hvd: ModuleType, device: str, effort: Effort) -> None:
        self._group = group
        self._hvd = hvd
        self._device = device
        self._effort = effort

    def run(self) -> None:
        """Measure everything; rank 0 prints it."""
        hosts = self._group.all_gather(socket.gethostname())
        self._say({"what": "hosts", "hosts": hosts})
        for pairs in rounds_of_pairs(self._group.size):
            self._over_tcp(pairs)
        for pairs in rounds_of_pairs(self._group.size):
            self._through_horovod(pairs)
        self._allreduce()
        self._say({"what": "end"})

    def _over_tcp(self, pairs: Sequence[Pair]) -> None:
        own = _pair_of(self._group.rank, pairs)
        deadline_s = time.monotonic() + PAIR_DEADLINE_S
        server = EchoServer(job_addresses(), deadline_s) if own and own[0] == self._rank else None
        offers = self._group.all_gather(asdict(server.offer) if server else None)
        measured: Mapping[int, list[int]] = {}
        problem = ""
        if own and own[1] == self._rank:
            try:
                offer = offers[own[0]]
                assert offer is not None
                measured = time_messages(Offer(**offer), self._effort, deadline_s)
            except OSError as error:
                problem = str(error)[:500]
        if server is not None:
            server.join()
        problems = self._group.all_gather(problem)
        for first, second in pairs:
            if problems[second]:
                link = {"what": TCP, "from": second, "to": first}
                self._say({**link, "problem": problems[second]})
        for size in self._effort.sizes:
            times = self._group.all_gather(measured.get(size, []))
            for first, second in pairs:
                self._say_times(TCP, (second, first), size, times[second])

    def _through_horovod(self, pairs: Sequence[Pair]) -> None:
        own = _pair_of(self._group.rank, pairs)
        sets = {pair: self._process_set(pair) for pair in pairs}
        too_slow: set[Pair] = set()
        for size in self._effort.sizes:
            tensor = self._tensor(size)
            is_in = own is not None and own not in too_slow
            first_ns = self._there_and_back(own, sets, tensor, 1)[0] if own and is_in else 0
            firsts = self._group.all_gather(first_ns)
            times: list[int] = []
            if own and is_in:
                # Both must repeat it equally often, so both take the time of the pair's first rank.
                number = self._effort.rounds(2 * firsts[own[0]] / 1e9)
                times = self._there_and_back(own, sets, tensor, number)
            all_times = self._group.all_gather(times)
            for pair in pairs:
                self._say_times(BROADCAST, pair, size, all_times[pair[0]])
                if 2 * firsts[pair[0]] / 1e9 > SLOWEST_ROUND_S:
                    too_slow.add(pair)
        for process_set in sets.values():
            if process_set is not self._hvd.global_process_set:
                self._hvd.remove_process_set(process_set)

    def _allreduce(self) -> None:
        for size in self._effort.sizes:
            tensor = self._tensor(size)

            def reduce(tensor: "Tensor" = tensor, name: str = f"hvdprof.net.{size}") -> None:
                self._hvd.allreduce_(tensor, name=name, op=self._hvd.Sum)
                self._wait()

            first_s = max(self._group.all_gather(timed_rounds(reduce, 1)[0])) * 2 / 1e9
            # An allreduce is one way, not a round trip.
            times = [2 * half for half in timed_rounds(reduce, self._effort.rounds(first_s))]
            self._say_times(ALLREDUCE, None, size, times)
            if first_s > SLOWEST_ROUND_S:
                return

    def _there_and_back(
        self, pair: Pair, sets: Mapping[Pair, object], tensor: "Tensor", number: int
    ) -> list[int]:
        name = f"hvdprof.net.{pair[0]}.{pair[1]}.{tensor.numel()}"

        def once() -> None:
            for root in pair:
                self._hvd.broadcast_(
                    tensor, root_rank=root, name=f"{name}.{root}", process_set=sets[pair]
                )
                self._wait()

        return timed_rounds(once, number)

    def _process_set(self, pair: Pair) -> object:
        if self._group.size == 2:
            return self._hvd.global_process_set
        return self._hvd.add_process_set(list(pair))

    def _tensor(self, size_bytes: int) -> "Tensor":
        import torch

        return torch.zeros(max(1, size_bytes // 4), dtype=torch.float32, device=self._device)

    def _wait(self) -> None:
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()

    @property
    def _rank(self) -> int:
        return self._group.rank

    def _say_times(self, what: str, link: Pair | None, size: int, times_ns: list[int]) -> None:
        if times_ns:
            way = {"from": link[0], "to": link[1]} if link else {}
            self._say({"what": what, **way, "size_bytes": size, "times_ns": times_ns})

    def _say(self, record: Mapping[str, object]) -> None:
        if self._rank == 0:
            sys.stdout.write(f"{MARK}{json.dumps(record, separators=(',', ':'))}\n")
            sys.stdout.flush()


def rounds_of_pairs(size: int) -> Iterator[list[Pair]]:
    """All pairs of ranks, in rounds in which no rank is in two pairs (the circle method)."""
    ranks: list[int | None] = list(range(size))
    if size % 2:
        ranks.append(None)
    for _ in range(len(ranks) - 1):
        half = len(ranks) // 2
        facing = zip(ranks[:half], reversed(ranks[half:]), strict=True)
        pairs = [
            (min(one, other), max(one, other))
            for one, other in facing
            if one is not None and other is not None
        ]
        if pairs:
            yield sorted(pairs)
        ranks = [ranks[0], ranks[-1], *ranks[1:-1]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as one rank of the job; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hvdprof.collect.net_probe")
    parser.add_argument("--sizes", required=True, help="bytes of the messages, such as 1024,65536")
    parser.add_argument("--seconds", type=float, required=True, help="for each pair and size")
    parser.add_argument("--np", type=int, required=True, help="ranks that must come together")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    given = parser.parse_args(arguments)
    import horovod.torch as hvd

    hvd.init()
    if hvd.size() != given.np:
        sys.stderr.write(
            f"{given.np} ranks were started, but Horovod joined {hvd.size()}: the launcher and "
            "Horovod's controller (MPI or Gloo) do not belong together.\n"
        )
        return WRONG_SIZE_EXIT_CODE
    sizes = sorted({int(size) for size in given.sizes.split(",")})
    group = horovod_ranks(own_identity())
    Probe(group, hvd, given.device, Effort(sizes, given.seconds)).run()
    hvd.shutdown()
    return 0


def _pair_of(rank: int, pairs: Sequence[Pair]) -> Pair | None:
    return next((pair for pair in pairs if rank in pair), None)


if __name__ == "__main__":
    sys.exit(main())
