"""Stands in for a launcher with its ranks that take turns: a step is a pause of some milliseconds.

    python turn_ranks.py FOLDER SIZE SEGMENT... [--die SEGMENT | --hang SEGMENT | --apart]

With `--late-s` the last rank comes so many seconds later to each boundary, as from a slow step.
With `--apart` the last rank stops at no boundary after its second turn, and all end by themselves
after some steps. With `--worker` each rank has a child that polls.

Each rank writes begin and end of every step to `FOLDER/steps-RANK.txt`, monotonic ns.
"""

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from hvdprof.collect.turn_gate import SETTLING_STEPS, turn_gate

STEP_S = 0.004


def main() -> None:
    """Start the ranks and wait for them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("size", type=int)
    parser.add_argument("segments", nargs="+")
    parser.add_argument("--die", default="")
    parser.add_argument("--hang", default="")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--late-s", type=float, default=0.0)
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    children = []
    for rank in range(options.size):
        child = os.fork()
        if not child:
            _train(rank, options)
            os._exit(0)
        children.append(child)
    while children:
        child, status = os.wait()
        children.remove(child)
        if code := os.waitstatus_to_exitcode(status):
            # As mpirun does where a rank fails.
            for other in children:
                os.kill(other, signal.SIGKILL)
            sys.exit(code)


def _train(rank: int, options: argparse.Namespace) -> None:
    gate = turn_gate(rank)
    assert gate is not None
    # Polls as Horovod's background thread does, until the process is stopped.
    threading.Thread(
        target=_poll, args=(options.folder / f"polls-{rank}.txt",), daemon=True
    ).start()
    worker = _worker(options.folder / f"polls-worker-{rank}.txt") if options.worker else None
    with (options.folder / f"steps-{rank}.txt").open("a") as file:
        for segment in options.segments:
            step, num_turns = 0, 0
            while count := gate.next_turn(segment, step, STEP_S):
                if segment == options.die and rank == options.size - 1:
                    os._exit(7)
                while segment == options.hang and rank == options.size - 1:
                    time.sleep(0.1)
                num_turns += 1
                if options.apart:
                    # Without the launching side: the last rank never stops again.
                    is_last = rank == options.size - 1
                    count = 40 if num_turns == 2 and is_last else min(count, 40)
                for _ in range(SETTLING_STEPS + count):
                    begin_ns = time.monotonic_ns()
                    time.sleep(STEP_S)
                    file.write(f"{segment} {step} {begin_ns} {time.monotonic_ns()}\n")
                    step += 1
                file.flush()
                if rank == options.size - 1:
                    time.sleep(options.late_s)
                if options.apart and num_turns > 1 and (is_last or count == 40):
                    break
    gate.close()
    if worker is not None:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def _worker(path: Path) -> int:
    child = os.fork()
    if not child:
        _poll(path)
    return child


def _poll(path: Path) -> None:
    with path.open("a", buffering=1) as file:
        while True:
            file.write(f"{time.monotonic_ns()}\n")
            time.sleep(0.002)


if __name__ == "__main__":
    main()
