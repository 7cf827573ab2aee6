"""Is the stage of the input, or the resource of the machine named? Jobs drawn from seeds.

``python -m benchmarks.machine_faults --folder DIR --first-seed N --write docs/howto/machine.md``
launches the job of each of twelve seeds, and its twin without the fault, under ``hvdprof run``,
unless DIR holds its run. What ``hvdprof analyze --format json`` says is judged. Other work on the
machine is no part of the jobs: the load is noted for each launch.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine_draw import (
    ALL,
    COLLATE,
    DECODE,
    EPOCHS,
    KINDS,
    MEMORY,
    NEIGHBOUR,
    QUEUE,
    QUOTA,
    SAME_CORE,
    SWAP,
    WORKERS_0,
    WORKERS_1,
    WORKERS_4,
    Job,
    draw,
)
from benchmarks.page_section import write_section
from benchmarks.script_faults import ROOT, CaseFailedError, output, own_environment
from benchmarks.swap_file import NotAllowedError, swap_file

Finding = Mapping[str, Any]

ACCUSING = (
    *("persistent-straggler", "transient-straggler", "stalled-steps", "input-bound"),
    *("memory-grows", "host-swaps", "oversubscribed"),
)
"""Findings that no clean twin should have."""


def _changes(finding: Finding, workers: str) -> bool:
    """Whether the fix is other workers: more of them, or cheaper work."""
    is_fix = "num_workers=" in finding["fix"] or "no core is idle" in finding["fix"]
    return workers in finding["evidence"] and is_fix


_SAYS: Mapping[str, tuple[str, Callable[[Finding], bool]]] = {
    NEIGHBOUR: ("no core", lambda one: "had no core" in one["evidence"] + one["action"]),
    QUOTA: ("CPU limit of its cgroup", lambda one: "CPU limit" in one["evidence"]),
    MEMORY: ("memory grows", lambda one: one["id"] == "memory-grows"),
    DECODE: ("fetch", lambda one: "Of that, fetching" in one["evidence"]),
    COLLATE: ("collate", lambda one: "Of that, collating" in one["evidence"]),
    WORKERS_0: ("no worker", lambda one: "No worker process loads" in one["evidence"]),
    WORKERS_1: ("the worker, to change", lambda one: _changes(one, "The worker of")),
    WORKERS_4: ("the four, to change", lambda one: _changes(one, "The 4 workers of")),
    QUEUE: ("prefetch_factor=", lambda one: one["fix"].startswith("set prefetch_factor=")),
    EPOCHS: ("persistent_workers", lambda one: "persistent_workers=True" in one["fix"]),
    SWAP: ("swap", lambda one: "second from swap" in one["evidence"]),
    SAME_CORE: ("pinned to too few cores", lambda one: "pinned to too few" in one["title"]),
}
"""By kind what a finding should say, and whether it does."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was said of a job, and the load of the machine when it began, in processes."""

    job: Job
    load: float
    findings: tuple[Finding, ...]

    @property
    def is_named(self) -> bool:
        """Whether a finding names the stage or resource, and the rank where it is of one."""
        says = _SAYS[self.job.kind][1]
        return any(says(one) and _is_of(one, self.job.rank) for one in self.findings)

    @property
    def accusations(self) -> tuple[str, ...]:
        """The titles of findings that accuse a rank, the input or the memory.

        That ranks lack a core because of other work is true on a machine with other work; where
        cores are what a fault takes, it counts all the same.
        """
        return tuple(
            one["title"]
            for one in self.findings
            if one["id"] in ACCUSING
            and (self.job.is_pinned or "no core for" not in one["evidence"])
        )

    @property
    def is_right(self) -> bool:
        """Whether the fault is named, or nothing accused in a clean twin."""
        return not self.accusations if self.job.is_clean else self.is_named

    @property
    def said(self) -> str:
        """What was said, in a line."""
        named = [
            f'"{one["title"]}: {one["fix"]}"' for one in self.findings if one["id"] in ACCUSING
        ]
        return "; ".join(named) or "nothing"


def _is_of(finding: Finding, rank: int) -> bool:
    return (
        rank == ALL
        or f"rank {rank}" in f"{finding['subject']} {finding['title']}".lower()
        or (f"rank {rank} " in finding["evidence"].split(".")[0])
    )


def run(job: Job, folder: Path) -> Judged:
    """Launch a job, unless its run is there, and judge what is said of it.

    Raises:
        CaseFailedError: It failed.
        NotAllowedError: It needs swap, which the machine does not allow.
    """
    place = folder / job.name
    done = place / "load"
    if not done.exists():
        load = os.getloadavg()[0]
        command = [
            *(sys.executable, "-m", "hvdprof", "run", "--np", "2", "-q", "-o", str(place / "run")),
            *(("--launcher", "torchrun") if job.engine == "ddp" else ()),
            *("--no-trace", "--no-net", "--", sys.executable),
            *(str(ROOT / "benchmarks/machine_job.py"), "--seed", str(job.seed)),
            *("--num-steps", str(job.num_steps)),
            *(("--clean",) if job.is_clean else ()),
        ]
        with swap_file() if job.is_limited else contextlib.nullcontext():
            output(command, own_environment())
        done.write_text(f"{load:.1f}", encoding="utf-8")
    analyze = [sys.executable, "-m", "hvdprof", "analyze", str(place / "run"), "--format", "json"]
    findings = json.loads(output(analyze, os.environ))["findings"]
    return Judged(job, float(done.read_text(encoding="utf-8")), tuple(findings))


def table(results: Sequence[Judged], command: str) -> str:
    """The Markdown table, one row per kind, and what was missed."""
    faults = [one for one in results if not one.job.is_clean]
    clean = [one for one in results if one.job.is_clean]
    seeds = sorted({one.job.seed for one in results})
    loads = sorted(one.load for one in results)
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, `{command}`, seeds {seeds[0]} to",
        f"{seeds[-1]}, beside other work: load {loads[0]:.1f} to {loads[-1]:.1f}, median "
        f"{loads[len(loads) // 2]:.1f}, on {os.cpu_count()} cores.",
        "",
        "| fault | what should be said | named | clean twins accused |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        own, twins = ([one for one in group if one.job.kind == kind] for group in (faults, clean))
        if own or twins:
            named = f"{sum(one.is_named for one in own)} of {len(own)}"
            accused = f"{sum(not one.is_right for one in twins)} of {len(twins)}"
            lines.append(f"| {kind} | {_SAYS[kind][0]} | {named} | {accused} |")
    lines += [
        "",
        f"Named: {sum(one.is_named for one in faults)} of {len(faults)} launches. Accused: "
        f"{sum(not one.is_right for one in clean)} of {len(clean)} clean twins.",
    ]
    missed = [one for one in results if not one.is_right]
    if missed:
        lines += ["", "| missed | seed | load | what hvdprof says |", "|---|---|---|---|"]
        lines += [
            f"| {one.job.kind}{', clean' if one.job.is_clean else ''} | {one.job.seed} | "
            f"{one.load:.1f} | {one.said} |"
            for one in missed
        ]
    return "\n".join(lines)


def main() -> None:
    """Launch what is missing, judge all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, required=True)
    parser.add_argument("--number", type=int, default=len(KINDS))
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    jobs = [draw(options.first_seed + place) for place in range(options.number)]
    results: list[Judged] = []
    begin_s = time.monotonic()
    for job in (one for drawn in jobs for one in (drawn, drawn.clean())):
        if time.monotonic() - begin_s > options.budget:
            break
        try:
            results.append(run(job, options.folder))
        except CaseFailedError as error:
            print(f"{job.name} failed:\n{error}", file=sys.stderr, flush=True)
            continue
        except NotAllowedError as error:
            print(f"{job.name} {job.kind}: not run, {error}", flush=True)
            continue
        one = results[-1]
        word = "right" if one.is_right else "MISSED"
        print(f"{time.monotonic() - begin_s:4.0f} s {job.name} {job.kind}: {word}; {one.said}")
        sys.stdout.flush()
    if results:
        first = f"--first-seed {options.first_seed}"
        text = table(results, f"python -m benchmarks.machine_faults --folder DIR {first}")
        print(text)
        if options.write is not None:
            write_section(options.write, "machine faults", text)


if __name__ == "__main__":
    main()
