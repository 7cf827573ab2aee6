"""One run, several sources: do hvdprof's recorder, torch.profiler and the Flight Recorder agree?

``python -m benchmarks.sources_of_one_run --folder DIR --write docs/explain/accuracy.md`` runs
``benchmarks/scripts/profiled_training.py`` on 2 ranks with Gloo, under DDP and FSDP2, once per
fault that DIR does not hold yet. All three record the same run; the table sets side by side which
rank each names, with phase and cost. Runs are kept: another call analyses them again.
"""

import argparse
import math
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.analyze.communication.matched_collectives import matched_collectives
from hvdprof.analyze.ranks.waiting import waiting_tables
from hvdprof.analyze.steps.measured_launches import job_steps, mark_steady
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.api import load_run
from hvdprof.model.run import Run
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.waiting_tables import CLOCKS, STRAGGLER_PATTERNS
from hvdprof.rundir.plan import DDP_ENGINE, FSDP_ENGINE

ROOT = Path(__file__).resolve().parents[1]
JOBS = (
    (DDP_ENGINE, "data:rank=1:ms=12"),
    (DDP_ENGINE, "forward:rank=0:ms=12"),
    (DDP_ENGINE, "backward:rank=1:ms=12"),
    (DDP_ENGINE, "backward:rank=1:ms=6"),
    (DDP_ENGINE, ""),
    (FSDP_ENGINE, "forward:rank=0:ms=12"),
    (FSDP_ENGINE, "backward:rank=1:ms=12"),
    (FSDP_ENGINE, ""),
)
COLLECTIVES_PER_STEP = {DDP_ENGINE: 1, FSDP_ENGINE: 6}
"""FSDP2 gathers two groups of parameters in forward and in backward, and reduces two gradients."""

NUM_RANKS = 2
NUM_STEPS = 30
FIRST_COMMON_STEP = 3
"""The profiler skips two steps, and the first that it records is warm-up."""

TIMEOUT_S = 300
LEAST_LAST = 0.9
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Said:
    """What one source says of a run: the straggler, its phase, and its cost per step in ns."""

    source: str
    rank: int | None
    phase: str
    cost_ns: float


def main() -> None:
    """Record what is missing, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args()
    lines = [
        "| script | fault, per step | source | rank | phase | cost per step "
        "| against the recorder |",
        "|---|---|---|---|---|---|---|",
    ]
    for engine, fault in JOBS:
        name = fault.replace(":", "-").replace("=", "") or "clean"
        folder = options.folder / f"{engine}-{name}"
        if not (folder / "trace_rank0.json.gz").exists():
            record(folder, engine, fault)
        lines += rows(engine, fault, said_of(folder, engine))
    text = "\n".join(lines)
    print(text)
    if options.write:
        write_section(options.write, "sources", text)


def record(folder: Path, engine: str, fault: str) -> None:
    """Run the script on two ranks; every source writes below ``folder``.

    Raises:
        RuntimeError: A rank failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.scripts.profiled_training", str(folder)]
    command += ["--engine", engine, "--fault", fault, "--steps", str(NUM_STEPS)]
    ranks = [
        subprocess.Popen(command, cwd=ROOT, env=_environment(folder, rank, port))
        for rank in range(NUM_RANKS)
    ]
    codes = [rank.wait(TIMEOUT_S) for rank in ranks]
    if any(codes):
        raise RuntimeError(f"{engine}, {fault or 'clean'}: ranks ended with {codes}")


def _environment(folder: Path, rank: int, port: int) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(NUM_RANKS),
        "LOCAL_WORLD_SIZE": str(NUM_RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "HVDPROF_RECORDER_DIR": str(folder / "recorder"),
        "TORCH_FR_BUFFER_SIZE": "2000",
    }


def said_of(folder: Path, engine: str) -> list[Said]:
    """What the three sources of one run of an engine say."""
    ranks = range(NUM_RANKS)
    recorded = load_run([folder / "recorder" / f"rank-{rank}.jsonl" for rank in ranks])
    traced = load_run([folder / f"trace_rank{rank}.json.gz" for rank in ranks])
    dumped = load_run([folder / f"flight_rank{rank}.json" for rank in ranks])
    return [
        _of_steps("recorder", recorded),
        _of_steps("torch.profiler", traced),
        _of_arrivals("Flight Recorder", dumped, COLLECTIVES_PER_STEP[engine]),
    ]


def _of_steps(source: str, run: Run) -> Said:
    steps = run.steps[run.steps["step"] >= FIRST_COMMON_STEP]
    works = step_work(steps, run.events, mark_steady(job_steps(steps)), run.table(WAITS.name))
    found = waiting_tables(run.arrivals, works).stragglers
    named = found[found["pattern"].isin(STRAGGLER_PATTERNS)].to_dict("records")
    if not named:
        return Said(source, None, "", NAN)
    worst = max(named, key=lambda row: float(row["cost_ns"]))
    return Said(source, int(worst["rank"]), str(worst["phase"]), float(worst["cost_ns"]))


def _of_arrivals(source: str, run: Run, per_step: int) -> Said:
    """The rank that is last at a place of the step, and by how much: a dump holds no more.

    Args:
        source: Its name.
        run: The dumps of all ranks.
        per_step: Collectives of a step.
    """
    calls = run.table(RANK_COLLECTIVES.name)
    found = matched_collectives(calls, CLOCKS.empty())
    found = found.sort_values("last_ns").tail((NUM_STEPS - 1) * per_step)
    cost_of: dict[int, float] = {}
    for _, at in found.groupby(np.arange(len(found)) % per_step):
        rank = int(at["last_rank"].mode().iloc[0])
        if (at["last_rank"] == rank).mean() >= LEAST_LAST:
            gap_ns = float((at["last_ns"] - at["second_last_ns"]).mean())
            cost_of[rank] = cost_of.get(rank, 0.0) + gap_ns
    if not cost_of:
        return Said(source, None, "", NAN)
    worst = max(cost_of, key=cost_of.__getitem__)
    return Said(source, worst, "not recorded", cost_of[worst])


def rows(engine: str, fault: str, said: list[Said]) -> list[str]:
    """The lines of the table for one run."""
    script = "FSDP2" if engine == FSDP_ENGINE else "DDP"
    reference = said[0].cost_ns
    lines = []
    for number, one in enumerate(said):
        what = (*((script, _described(fault)) if not number else ("", "")), one.source)
        if one.rank is None:
            lines.append(f"| {' | '.join(what)} | none |  |  |  |")
            continue
        cost = f"{one.cost_ns / 1e6:.1f} ms"
        known = number and not math.isnan(reference)
        against = f"{one.cost_ns / reference - 1:+.1%}" if known else ""
        lines.append(f"| {' | '.join(what)} | {one.rank} | {one.phase} | {cost} | {against} |")
    return lines


def _described(fault: str) -> str:
    if not fault:
        return "none (clean)"
    place, rank, length = fault.split(":")
    return f"rank {rank.removeprefix('rank=')}, {place}, {length.removeprefix('ms=')} ms"


if __name__ == "__main__":
    main()
