"""How fast NCCL logs are read, and with how much memory.

``python -m benchmarks.nccl_ingest [--mb 200] [--log FILE]`` writes a synthetic log (or repeats a
given one) and reads it in a process of its own, against two lower bounds interleaved with it: going
over the lines alone, and one regular expression for the prefix alone. Medians of three rounds, by
CPU seconds.

``--ranks 32`` writes one log for each process instead, as NCCL_DEBUG_FILE does, of ``--mb`` in all,
one init and then calls, and measures the whole of ``hvdprof analyze``, in turn with that of another
checkout (``--against``).
"""

import argparse
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.inspector_ingest import analyzed, shown
from hvdprof.ingest.nccl.line_prefixes import HEAD
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.ingest.text.printed_lines import LogFile

_ROUNDS = 3
_CALL_BYTES = 210


def main() -> None:
    """Write the log, read it several ways in turn, print MB per CPU second and peak memory."""
    parser = argparse.ArgumentParser(description="Measure reading of NCCL logs.")
    parser.add_argument("--mb", type=int, default=200, help="size of the log")
    parser.add_argument("--log", type=Path, help="repeat this log instead of a synthetic one")
    parser.add_argument("--way", choices=sorted(WAYS), help="read once and print; for itself")
    parser.add_argument("--file", type=Path, help="the file that --way reads")
    parser.add_argument("--ranks", type=int, help="a log for each of so many ranks, by analyze")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of --ranks")
    parser.add_argument("--against", type=Path, help="checkout of another version, for --ranks")
    options = parser.parse_args()
    if options.ranks:
        ways = {"this version": Path(__file__).parent.parent}
        if options.against is not None:
            ways["other version"] = options.against
        _analyze(options.ranks, options.mb * 10**6, ways, options.rounds)
        return
    if options.way:
        print(*_measured(WAYS[options.way], options.file))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nccl.log"
        _write(path, options.mb * 10**6, options.log)
        _compare(path)


def _lines_alone(path: Path) -> None:
    for _ in LogFile(path).lines():
        pass


def _prefix_alone(path: Path) -> None:
    for line in LogFile(path).lines():
        HEAD.search(line.text)


def _tables(path: Path) -> None:
    read_nccl_logs([path])


WAYS: dict[str, Callable[[Path], None]] = {
    "lines": _lines_alone,
    "prefix": _prefix_alone,
    "tables": _tables,
}


def _measured(way: Callable[[Path], None], path: Path) -> tuple[float, float]:
    """CPU seconds, and peak memory of the process in MB."""
    start = time.process_time()
    way(path)
    seconds = time.process_time() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _compare(path: Path) -> None:
    megabytes = path.stat().st_size / 1e6
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(_ROUNDS):
        for name in WAYS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.nccl_ingest",
                "--way",
                name,
                "--file",
                str(path),
            ]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            of_round, peak_of_round = map(float, answer.split())
            rounds[name].append((of_round, peak_of_round))
    print(f"{megabytes:.0f} MB")
    for name, measured in rounds.items():
        seconds = statistics.median(second for second, _ in measured)
        peak = statistics.median(memory for _, memory in measured)
        print(f"{name:8} {megabytes / seconds:6.1f} MB/cpu-s   peak {peak:.0f} MB")


def _analyze(num_ranks: int, size: int, ways: dict[str, Path], num_rounds: int) -> None:
    """Print CPU seconds, seconds and peak memory of ``analyze`` of logs of one process each."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        num_calls = size // num_ranks // _CALL_BYTES
        for rank in range(num_ranks):
            own = f"elm{rank // 8}:{20000 + rank}:{20000 + rank} [{rank % 8}] NCCL INFO "
            # Line by line: the peak of a child is at least the memory of its parent.
            with (logs / f"nccl.{rank}.log").open("w") as stream:
                stream.writelines(f"{own}{line}\n" for line in _init(rank, num_ranks))
                stream.writelines(f"{own}{_call(number)}\n" for number in range(num_calls))
        megabytes = sum(path.stat().st_size for path in logs.iterdir()) / 1e6
        print(f"{num_ranks} logs, {num_ranks * num_calls:,} calls, {megabytes:.0f} MB")
        rounds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
        for _ in range(num_rounds):
            for name, checkout in ways.items():
                rounds[name].append(analyzed(checkout, [logs]))
    for name, measured in rounds.items():
        print(f"{name:15} {shown(measured)}")


def _init(rank: int, num_ranks: int) -> list[str]:
    """The init of one rank, behind the prefix."""
    pairs = f"rank {rank} nranks {num_ranks} cudaDev {rank % 8} busId 1c000 commId 0x77"
    return [
        *(f"Channel {number:02d}/0 : {rank}[0] -> {(rank + 1) % num_ranks}[1] via P2P/CUMEM/read"
          for number in range(16)),
        f"comm 0x55b6a9000 {pairs} - Init COMPLETE",
    ]  # fmt: skip


def _call(number: int) -> str:
    """A call, behind the prefix: one of 64 buckets of gradients, step by step."""
    bucket = number % 64
    return (
        f"AllReduce: opCount {number:x} sendbuff 0x7f{bucket:02x}00000000 recvbuff "
        f"0x7f{bucket:02x}00000000 count {1024 * (1 + bucket)} datatype 7 op 0 root 0 comm "
        "0x55b6a9000 [nranks=8] stream 0x55b6a98daaf0"
    )


def _write(path: Path, size: int, source: Path | None) -> None:
    block = _synthetic() if source is None else source.read_bytes()
    with path.open("wb") as stream:
        for _ in range(size // len(block) + 1):
            stream.write(block)


def _synthetic() -> bytes:
    """What a job of eight ranks writes with NCCL_DEBUG_SUBSYS=INIT,COLL: calls above all."""
    lines = []
    for rank in range(8):
        head = f"elm{rank // 4}:{9000 + rank}:{9100 + rank} [{rank % 4}] NCCL INFO "
        lines.append(f"{head}comm 0x{rank + 1:x}000 rank {rank} nranks 8 cudaDev {rank % 4} "
                     f"busId {rank + 1}c000 commId 0x77 - Init COMPLETE")  # fmt: skip
        lines += [
            f"{head}Channel {channel:02d}/0 : {rank}[0] -> {(rank + 1) % 8}[1] via P2P/CUMEM/read"
            for channel in range(16)
        ]
    for call in range(2000):
        rank = call % 8
        lines.append(
            f"elm{rank // 4}:{9000 + rank}:{9000 + rank} [{rank % 4}] NCCL INFO AllReduce: "
            f"opCount {call // 8:x} sendbuff 0x7f2000000000 recvbuff 0x7f2000000000 count "
            f"{1024 * (1 + call % 64)} datatype 7 op 0 root 0 comm 0x{rank + 1:x}000 [nranks=8] "
            "stream 0x55b6a98daaf0"
        )
    return re.sub(rb"\n*$", b"\n", "\n".join(lines).encode())


if __name__ == "__main__":
    main()
