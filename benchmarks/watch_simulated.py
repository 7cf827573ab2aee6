"""How soon `hvdprof watch` names a slow rank, how often a clean one, and what it costs: simulated.

Own times of windows of a second: noise of 3 % with an autocorrelation of 0.6, a placement that
differs between ranks by 1 % and changes every 10 minutes, stalls in 1 % of the windows (15 % in the
mean, exponential). For the cost, light recordings of many ranks are written and read by the
watcher itself.

    python -m benchmarks.watch_simulated --write docs/howto/watch.md
"""

import argparse
import json
import math
import random
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.live.e_detector import EDetector, beyond_others
from hvdprof.live.job_state import LATENESS
from hvdprof.live.watcher import Watcher

NOISE, CORRELATION, PLACEMENT, STALLS, STALL = 0.03, 0.6, 0.01, 0.01, 0.15
ONSET, END, LENGTH = 100, 400, 500
STEPS = 32


@dataclass(frozen=True, slots=True)
class Delay:
    """Of some draws with a delay: seconds until it was named and cleared, wrong names."""

    named: list[int]
    cleared: list[int]
    wrong: int


def own_times(rng: np.random.Generator, windows: int, ranks: int) -> np.ndarray:
    """Own time of each rank in each window, as a share of the step beyond the usual one."""
    own = np.empty((windows, ranks))
    noise, placement = rng.normal(0, NOISE, ranks), np.zeros(ranks)
    fresh = NOISE * math.sqrt(1 - CORRELATION**2)
    for window in range(windows):
        if window % 600 == 0:
            placement = rng.normal(0, PLACEMENT, ranks)
        noise = CORRELATION * noise + rng.normal(0, fresh, ranks)
        stalls = (rng.random(ranks) < STALLS) * rng.exponential(STALL, ranks)
        own[window] = noise + placement + stalls
    return own


def events_of(own: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """Window, rank, and whether it is named there (else cleared)."""
    detector = EDetector(LATENESS)
    for window, row in enumerate(own.tolist()):
        begun, ended = detector.update(beyond_others(dict(enumerate(row))))
        yield from ((window, rank, True) for rank in begun)
        yield from ((window, rank, False) for rank in ended)


def false_names(seed: int, ranks: int, hours: int) -> int:
    """Names in hours of clean training, an hour at a time."""
    rng = np.random.default_rng(seed)
    return sum(
        is_named for _ in range(hours) for *_, is_named in events_of(own_times(rng, 3600, ranks))
    )


def delayed(seed: int, ranks: int, delay: float, draws: int) -> Delay:
    """What is reported of a delay of rank 1, from window ``ONSET`` to ``END``."""
    rng = np.random.default_rng(seed)
    found = Delay([], [], 0)
    wrong = 0
    for _ in range(draws):
        own = own_times(rng, LENGTH, ranks)
        own[ONSET:END, 1] += delay
        events = list(events_of(own))
        wrong += sum(rank != 1 for _, rank, _ in events)
        found.named.extend([at - ONSET for at, rank, named in events if rank == 1 and named][:1])
        found.cleared.extend(
            [at - END for at, rank, named in events if rank == 1 and not named and at >= END][:1]
        )
    return Delay(found.named, found.cleared, wrong)


def write_job(folder: Path, ranks: int, windows: int) -> None:
    """Light recordings of a clean job: windows of a second."""
    rng = random.Random(1)
    step_ns = 1_000_000_000 // STEPS
    files = [(folder / f"rank-{rank}.jsonl").open("w") for rank in range(ranks)]
    for rank, file in enumerate(files):
        header = {"kind": "header", "rank": rank, "size": ranks, "wall_ns": 0, "monotonic_ns": 0}
        file.write(json.dumps(header | {"host": {"hostname": f"node{rank // 8}"}}) + "\n")
    for window in range(windows):
        for file in files:
            own = int(STEPS * step_ns * (0.8 + rng.gauss(0, 0.02)))
            length = STEPS * step_ns
            end = (window + 1) * length
            parts = {"data": own // 10, "forward": own // 3, "backward": own // 2}
            line = {
                "kind": "window",
                "segment": "main",
                "step": window * STEPS,
                "last_step": window * STEPS + STEPS - 1,
                "num_steps": STEPS,
                "warmup": False,
                "start_ns": end - length,
                "end_ns": end,
                "wall_ns": end,
                "samples": STEPS,
                "lengths": [length, step_ns, step_ns, step_ns],
                "parts": {name: [time_ns, 0, 0, 0] for name, time_ns in parts.items()}
                | {"blocked": [length - own, 0, 0, 0]},
                "waits": [["grad_reduce", STEPS, own, length - own, ranks]],
                "longest": [window * STEPS, step_ns, 0, "backward", 0],
            }
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    for file in files:
        file.close()


def cost(ranks: int, windows: int) -> tuple[float, float]:
    """Processor time of the watcher per second of the job, and its memory in MiB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_job(folder, ranks, windows)
        watcher = Watcher(folder)
        before = time.process_time()
        watcher.look()
        spent = time.process_time() - before
        watcher.close()
    return spent / windows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def quantiles(seconds: Sequence[int]) -> str:
    """``31 s (p90 48 s)``."""
    if not seconds:
        return "-"
    return f"{np.median(seconds):.0f} s (p90 {np.quantile(seconds, 0.9):.0f} s)"


def page_text(hours: int, draws: int, seed: int) -> str:
    """The tables of the page."""
    lines = [
        "| ranks | delay | named | after | cleared after | wrong rank |",
        "|---|---|---|---|---|---|",
    ]
    for ranks in (2, 8, 64, 512):
        number = draws if ranks <= 64 else max(draws // 5, 4)
        for delay in (0.1, 0.2, 0.3):
            found = delayed(seed, ranks, delay, number)
            lines.append(
                f"| {ranks} | {100 * delay:.0f} % | {len(found.named)} of {number} | "
                f"{quantiles(found.named)} | {quantiles(found.cleared)} | {found.wrong} |"
            )
            print(lines[-1], flush=True)
    clean = [(ranks, hours if ranks <= 8 else max(hours // 10, 1)) for ranks in (2, 8, 64)]
    lines += ["", "| ranks | clean hours | names |", "|---|---|---|"]
    for ranks, number in clean:
        lines.append(f"| {ranks} | {number} | {false_names(seed, ranks, number)} |")
        print(lines[-1], flush=True)
    lines += ["", "| ranks | processor time | memory |", "|---|---|---|"]
    for ranks in (8, 64, 512):
        share, memory = cost(ranks, 120)
        lines.append(f"| {ranks} | {100 * share:.2f} % of a core | {memory:.0f} MiB |")
        print(lines[-1], flush=True)
    when = datetime.now(UTC).date().isoformat()
    return "\n".join([*lines, "", f"{when}: seed {seed}, `python -m benchmarks.watch_simulated`."])


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=100, help="of clean training")
    parser.add_argument("--draws", type=int, default=40, help="per delay")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    text = page_text(options.hours, options.draws, options.seed)
    if options.write is not None:
        write_section(options.write, "watch", text)


if __name__ == "__main__":
    main()
