"""How fast output of jobs is read, against another version and against reading lines alone.

``python benchmarks/output_ingest.py [--mb 50] [--against CHECKOUT]`` writes synthetic output of
several kinds and reads each in a process of its own, the ways in turn: ``read_printed_file`` of
this version, that of the other checkout, and a loop over the lines that splits each into words: it
stands for any reader that touches every line. Medians of three rounds, by CPU seconds.
"""

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hvdprof.ingest.logs.printed_file import read_printed_file

_ROUNDS = 3
_STAMP = "2026-11-20T21:56:09.123456789Z "


def main() -> None:
    """Write each kind of output, read it several ways in turn, print MB per CPU second."""
    parser = argparse.ArgumentParser(description="Measure reading of job output.")
    parser.add_argument("--mb", type=int, default=50, help="size of each file")
    parser.add_argument("--against", type=Path, help="checkout of another version")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=sorted(KINDS))
    parser.add_argument("--way", choices=sorted(WAYS), help="read once and print; for itself")
    parser.add_argument("--file", type=Path, help="the file that --way reads")
    options = parser.parse_args()
    if options.way:
        print(*_measured(WAYS[options.way], options.file))
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            path = Path(folder) / f"{kind}.log"
            _write(path, options.mb * 10**6, KINDS[kind])
            _compare(kind, path, options.against)
            path.unlink()


def _words(path: Path) -> None:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line.split()


def _read(path: Path) -> None:
    read_printed_file(path)


WAYS: dict[str, Callable[[Path], None]] = {"words": _words, "read": _read}


def _measured(way: Callable[[Path], None], path: Path) -> tuple[float, float]:
    """CPU seconds, and peak memory of the process in MB."""
    start = time.process_time()
    way(path)
    seconds = time.process_time() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _compare(kind: str, path: Path, against: Path | None) -> None:
    here = Path(__file__).parent.parent
    ways = {"this version": ("read", here), "words of lines": ("words", here)}
    if against is not None:
        ways["other version"] = ("read", against)
    megabytes = path.stat().st_size / 1e6
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, (way, checkout) in ways.items():
            command = [sys.executable, __file__, "--way", way, "--file", str(path)]
            answer = subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(checkout)},
            )
            seconds, peak = map(float, answer.stdout.split())
            rounds[name].append((seconds, peak))
    load = os.getloadavg()[0]
    for name, measured in rounds.items():
        seconds = statistics.median(second for second, _ in measured)
        peak = statistics.median(memory for _, memory in measured)
        rate = megabytes / seconds
        print(f"{kind:10} {name:15} {rate:8.1f} MB/cpu-s  peak {peak:4.0f} MB  load {load:.1f}")


def _write(path: Path, size: int, lines: Callable[[], Iterator[str]]) -> None:
    block = "".join(lines()).encode()
    with path.open("wb") as stream:
        for _ in range(max(size // len(block), 1)):
            stream.write(block)


def _training() -> Iterator[str]:
    """What training scripts print: progress, log lines of Python, warnings, bars."""
    draw = random.Random(1)
    for step in range(20_000):
        kind = step % 10
        if kind < 6:
            yield (
                f"Epoch {step // 100:3d}/90 [{step % 100:4d}/1251] Time 0.{draw.randint(100, 999)} "
                f"Data 0.0{draw.randint(10, 99)} Loss {draw.random():.4e} (6.9e+00) "
                f"Acc@1 {draw.random() * 100:.2f}\n"
            )
        elif kind < 8:
            yield (
                f"2026-11-20 21:56:{step % 60:02d},{step % 1000:03d} INFO trainer.py:231 "
                f"step={step} lr=0.00{step % 100} grad_norm={draw.random():.3f}\n"
            )
        elif kind == 8:
            yield (
                "/usr/lib/python3.11/site-packages/torch/optim/lr_scheduler.py:143: UserWarning: "
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`.\n"
            )
        else:
            yield f" {step % 100:3d}%|{'#' * (step % 40):40s}| {step % 100}/100 [00:07, 3.21it/s]\r"


def _drawn() -> Iterator[str]:
    """Bars of tqdm as a file gets them: an epoch is a line, each draw over the one before."""
    for step in range(20_000):
        done, left = step % 1000 + 1, 999 - step % 1000
        bar = "\u2588" * (done // 50)
        yield (
            f"\rEpoch {step // 1000}: {done / 10:3.0f}%|{bar:20s}| {done}/1000 [00:{done % 60:02d}<"
            f"{left // 60:02d}:{left % 60:02d}, {3 + done % 10 / 7:.2f}it/s, loss={1 / done:.3f}]"
        )
        if not left:
            yield "\n"


def _tf_cnn() -> Iterator[str]:
    """Nothing but rates of tf_cnn_benchmarks, which are short lines."""
    draw = random.Random(1)
    for step in range(20_000):
        rate, loss = draw.uniform(1000, 1300), draw.randint(0, 999)
        yield f"{step * 10}\timages/sec: {rate:.1f} +/- 0.3 (jitter = 3.1)\t7.{loss:03d}\n"


def _timm() -> Iterator[str]:
    """Nothing but rates of timm, each with its mean and the times."""
    draw = random.Random(1)
    for step in range(20_000):
        times = draw.uniform(0.3, 1), draw.uniform(0.3, 1)
        time, mean = (f"{seconds:.3f}s, {256 / seconds:>7.2f}/s" for seconds in times)
        yield (
            f"Train: {step // 1000} [{step % 1000:4d}/1251 ({step % 1000 / 12.51:3.0f}%)]  Loss: "
            f"{draw.random():.3f} (6.9)  Time: {time}  ({mean})  LR: 1.0e-05  Data: 0.012 (0.05)\n"
        )


def _before(*texts: str) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        for number, line in enumerate(_training()):
            yield texts[number % len(texts)] + line.rstrip("\r\n") + "\n"

    return lines


def _nccl() -> Iterator[str]:
    """Calls of 512 ranks, with the tags of mpirun, interleaved."""
    for call in range(20_000):
        rank = call % 512
        yield (
            f"[1,{rank}]<stdout>:elm{rank // 8}:{9000 + rank}:{9100 + rank} [{rank % 8}] NCCL INFO "
            f"AllReduce: opCount {call // 512:x} sendbuff 0x7f2000000000 recvbuff 0x7f2000000000 "
            f"count {1024 * (1 + call % 64)} datatype 7 op 0 root 0 comm 0x{rank + 1:x}000 "
            "[nranks=512] stream 0x55b6a98daaf0\n"
        )


def _one_line() -> Iterator[str]:
    yield "loss 0.123, acc 45.6, step 7; " * 40_000


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "plain": _training,
    "docker": _before(_STAMP),
    "mpirun": _before(*(f"[1,{rank}]<stdout>:" for rank in range(8))),
    "colours": _before("\x1b[36m(worker pid=7)\x1b[0m "),
    "nccl": _nccl,
    "drawn": _drawn,
    "tf-cnn": _tf_cnn,
    "timm": _timm,
    "one-line": _one_line,
}


if __name__ == "__main__":
    main()
