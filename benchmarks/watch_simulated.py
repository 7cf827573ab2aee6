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
from hvdprof import units
from hvdprof.live.e_detector import EDetector, beyond_others
from hvdprof.live.explanation import Sampled
from hvdprof.live.job_state import LATENESS
from hvdprof.live.memory_growth import MemoryGrowth
from hvdprof.live.watcher import Watcher
from hvdprof.rundir.recording.sample_format import DEVICE, MEASURES, RANK, RSS

NOISE, CORRELATION, PLACEMENT, STALLS, STALL = 0.03, 0.6, 0.01, 0.01, 0.15
ONSET, END, LENGTH = 100, 400, 500
WINDOW_S, HOST_BYTES = 5, 64e9
CLEAN = {
    "noise": "noise of 0.2 %, waves of 2 % and 2 to 30 min",
    "walk": "random walk, 3 MB per 5 s",
    "sawtooth": "grows by 5 to 50 % and is freed, every 20 s to 1 h",
    "evaluation": "20 to 80 % more in evaluations",
    "cache": "a cache of 0.2 to 2 times the rest fills in 20 s to 1 h (exponential)",
    "slow": "grows by 1 % per hour",
}
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


def clean_memory(rng: np.random.Generator, kind: str, windows: int) -> np.ndarray:
    """Memory of a rank that does not grow for ever, bytes, in windows of five seconds."""
    at_s = WINDOW_S * np.arange(windows)
    base = rng.uniform(1, 8) * 1e9
    noise = rng.normal(0, 3e6, windows)
    if kind == "noise":
        return base + 3 * noise + 0.02 * base * np.sin(at_s / rng.uniform(20, 300))
    if kind == "walk":
        return base + np.cumsum(noise)
    if kind == "sawtooth":
        period_s = rng.uniform(20, 3600)
        return base * (1 + rng.uniform(0.05, 0.5) * (at_s / period_s % 1)) + noise
    if kind == "evaluation":
        is_on = at_s % rng.uniform(300, 1800) < rng.uniform(20, 120)
        return base * (1 + rng.uniform(0.2, 0.8) * is_on) + noise
    if kind == "cache":
        filling_s = math.exp(rng.uniform(math.log(20), math.log(3600)))
        return base + rng.uniform(0.2, 2) * base * (1 - np.exp(-at_s / filling_s)) + noise
    return base * (1 + 0.01 * at_s / 3600) + noise


def memory_events(levels: np.ndarray, room: float = HOST_BYTES) -> Iterator[tuple[float, bool]]:
    """When memory was said to grow, or no longer to, s."""
    growth = MemoryGrowth()
    for window, level in enumerate(levels.tolist()):
        begin_s = WINDOW_S * window
        sampled = Sampled(0, "rank", begin_s, begin_s + WINDOW_S, {RSS: level})
        left = room - (level - levels[0])
        yield from ((begin_s, is_begin) for _, is_begin in growth.take(sampled, left))


def false_growths(seed: int, kind: str, hours: int) -> int:
    """How often clean memory was said to grow, a job of two hours at a time."""
    rng = np.random.default_rng(seed)
    number = 2 * 3600 // WINDOW_S
    return sum(
        is_begin
        for _ in range(hours // 2)
        for _, is_begin in memory_events(clean_memory(rng, kind, number))
    )


def leaking(seed: int, rate: float, draws: int) -> Delay:
    """What is reported of a leak of some bytes per second, of two hours after half an hour."""
    rng = np.random.default_rng(seed)
    begin, end, number = (round(hours * 3600 / WINDOW_S) for hours in (0.5, 2.5, 3.5))
    found = Delay([], [], 0)
    for _ in range(draws):
        grown = np.clip(np.arange(number) - begin, 0, end - begin) * WINDOW_S * rate
        levels = rng.uniform(1, 8) * 1e9 + grown + rng.normal(0, 3e6, number)
        events = list(memory_events(levels, HOST_BYTES))
        after = [at_s - begin * WINDOW_S for at_s, is_begin in events if is_begin]
        over = [at_s - end * WINDOW_S for at_s, is_begin in events if not is_begin]
        found.named.extend(round(at_s) for at_s in after[:1])
        found.cleared.extend(round(at_s) for at_s in over[-1:] if at_s >= 0)
    return found


def memory_text(hours: int, draws: int, seed: int) -> str:
    """The tables of memory."""
    lines = ["| memory of a rank | clean hours | names |", "|---|---|---|"]
    for kind in CLEAN:
        lines.append(f"| {CLEAN[kind]} | {hours} | {false_growths(seed, kind, hours)} |")
        print(lines[-1], flush=True)
    lines += ["", "| leak | named | after | cleared after |", "|---|---|---|---|"]
    for rate in (0.2e6, 1e6, 10e6, 50e6):
        found = leaking(seed, rate, draws)
        lines.append(
            f"| {units.byte_size(rate)} per s | {len(found.named)} of {draws} | "
            f"{quantiles(found.named)} | {quantiles(found.cleared)} |"
        )
        print(lines[-1], flush=True)
    return "\n".join([*lines, "", footer(seed, " --memory")])


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
    for rank in range(ranks):
        write_samples(folder / f"samples-{rank}.jsonl", windows)


def write_samples(path: Path, windows: int) -> None:
    """Samples of a rank and its GPU while a watcher follows: every measure, every 5 s."""
    with path.open("w") as file:
        for end in range(WINDOW_S, windows + 1, WINDOW_S):
            times = {"start_ns": (end - WINDOW_S) * 10**9, "end_ns": end * 10**9}
            for scope in (RANK, DEVICE):
                names = [name for name, one in MEASURES.items() if one.scope == scope]
                measures = [(name, 5, 1e9, 1e9, 1e9, 1e9) for name in names]
                line = {"kind": "samples", "scope": scope, "device": "", **times}
                file.write(json.dumps(line | {"measures": measures}) + "\n")


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
    return "\n".join([*lines, "", footer(seed)])


def footer(seed: int, option: str = "") -> str:
    """When, and by which command."""
    when = datetime.now(UTC).date().isoformat()
    return f"{when}: seed {seed}, `python -m benchmarks.watch_simulated{option}`."


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=100, help="of clean training")
    parser.add_argument("--draws", type=int, default=40, help="per delay")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    parser.add_argument("--memory", action="store_true", help="the tables of memory alone")
    options = parser.parse_args()
    memory = memory_text(options.hours, options.draws, options.seed)
    if options.write is not None:
        write_section(options.write, "memory", memory)
    if options.memory:
        return
    text = page_text(options.hours, options.draws, options.seed)
    if options.write is not None:
        write_section(options.write, "watch", text)


if __name__ == "__main__":
    main()
