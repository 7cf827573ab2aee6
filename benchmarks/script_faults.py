"""Faults that scripts inflict on themselves: is the cause named, with rank, phase and cost?

``python -m benchmarks.script_faults --folder DIR --write docs/explain/accuracy.md`` runs every case
of ``script_fault_cases.py`` that DIR does not hold yet: a script of ``benchmarks/scripts`` under
``hvdprof run``, with its bug or without. What ``hvdprof analyze --format json`` says is judged by
the truth, and the table put into the page. Runs are kept: another call analyses them again.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.page_section import write_section
from benchmarks.script_fault_cases import CASES, CLEAN, Case
from benchmarks.script_fault_judgement import Said, Verdict, judge, read
from benchmarks.scripts.fault import LOG_FOLDER

ROOT = Path(__file__).resolve().parents[1]
NUM_STEPS = 50
TIMEOUT_S = 240
PARTS = {
    "ranks": "right ranks",
    "phase": "right phase",
    "pattern": "right pattern, period",
    "cost": "cost within 15 %",
    "alone": "no second name",
    "headline": "named in the first lines",
}


class CaseFailedError(Exception):
    """A case gave no result; it is run again the next time."""


def command(case: Case, run: Path) -> list[str]:
    """The command of a case."""
    sizes = f"1,{case.np}" if case.baseline else str(case.np)
    return [
        *(sys.executable, "-m", "hvdprof", "run", "--np", sizes, "-q", "-o", str(run)),
        *("--num-steps", str(NUM_STEPS), "--trace" if case.trace else "--no-trace"),
        *("--", sys.executable, str(ROOT / f"benchmarks/scripts/{case.script}.py")),
        *case.arguments,
    ]


def launch(case: Case, folder: Path) -> None:
    """Run the script of a case, unless its run is there.

    Raises:
        CaseFailedError: The run failed.
    """
    run, losses, done = (folder / case.name / name for name in ("run", "lost", "done"))
    if done.exists():
        return
    if run.parent.exists():
        shutil.rmtree(run.parent)
    losses.mkdir(parents=True)
    output(command(case, run), own_environment() | {LOG_FOLDER: str(losses)})
    done.touch()


def own_environment() -> dict[str, str]:
    """That of this process, where Python also finds the repository."""
    folders = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def output(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command prints.

    Raises:
        CaseFailedError: It failed, or took more than ``TIMEOUT_S``.
    """
    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            check=False,
            env=dict(environment),
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise CaseFailedError(f"no end after {TIMEOUT_S} s") from error
    if done.returncode:
        raise CaseFailedError(done.stdout[-2000:] + done.stderr[-2000:])
    return str(done.stdout)


def analysed(case: Case, folder: Path) -> tuple[Said, Verdict]:
    """What hvdprof says of the run of a case, and what of it is right.

    Raises:
        CaseFailedError: It cannot be analysed.
    """
    analyze = [sys.executable, "-m", "hvdprof", "analyze", str(folder / case.name / "run")]
    text = output([*analyze, "--format", "json"], os.environ)
    said = read(json.loads(text), case.np)
    return said, judge(case, said, lost(folder / case.name / "lost", case.np))


def lost(folder: Path, np: int) -> dict[int, dict[int, float]]:
    """Seconds that each rank lost, by rank and step, as the script wrote them down."""
    by_rank: dict[int, dict[int, float]] = {}
    for path in folder.glob(f"np{np}-rank*.csv"):
        of_rank: dict[int, float] = defaultdict(float)
        for line in path.read_text(encoding="utf-8").splitlines():
            step, seconds = line.split(",")
            of_rank[int(step)] += float(seconds)
        by_rank[int(path.stem.partition("rank")[2])] = of_rank
    return by_rank


def table(results: Sequence[tuple[Case, Said, Verdict]]) -> str:
    """The Markdown table, one row per pattern and rank count, and below it what was missed."""
    lines = [f"| pattern | ranks | launches | {' | '.join(PARTS.values())} |"]
    lines.append("|---" * (3 + len(PARTS)) + "|")
    patterns = list(dict.fromkeys(case.what for case, _, _ in results))
    rows: dict[tuple[str, int], list[Verdict]] = {}
    for case, _, verdict in results:
        rows.setdefault((case.what, case.np), []).append(verdict)
    for what, np in sorted(rows, key=lambda row: (patterns.index(row[0]), row[1])):
        verdicts = rows[what, np]
        counts = [_count([getattr(one, part) for one in verdicts]) for part in PARTS]
        lines.append(f"| {what} | {np} | {len(verdicts)} | {' | '.join(counts)} |")
    right = sum(verdict.is_right for _, _, verdict in results)
    lines += ["", f"All of it right: {right} of {len(results)} launches."]
    missed = [one for one in results if not one[2].is_right]
    if missed:
        lines += ["", "| missed | what is wrong | what hvdprof says |", "|---|---|---|"]
        lines += [_missed_row(case, said, verdict) for case, said, verdict in missed]
    return "\n".join(lines)


def _count(values: Sequence[bool | None]) -> str:
    asked = [value for value in values if value is not None]
    return f"{sum(asked)} of {len(asked)}" if asked else ""


def _missed_row(case: Case, said: Said, verdict: Verdict) -> str:
    wrong = [PARTS[part] for part in PARTS if getattr(verdict, part) is False]
    if verdict.cost is False and verdict.cost_error is not None:
        wrong[wrong.index(PARTS["cost"])] = f"cost {verdict.cost_error:+.0%}"
    what = f"{case.script}, {case.np} ranks, {f'`{case.fault}`' if case.fault else CLEAN}"
    return f"| {what} | {', '.join(wrong)} | {summary(said)} |"


def summary(said: Said) -> str:
    """The causes and findings in a line."""
    named = []
    for one in said.named:
        ranks = "any" if one.is_any else "+".join(map(str, one.ranks))
        period = f" every {one.period:g}" if one.period == one.period else ""
        cost = f"{one.cost_ns / 1e6:.1f} ms"
        named.append(f"{one.kind} {ranks} {one.phase} {one.pattern}{period} {cost}")
    return "; ".join([*named, *(f'"{title}"' for _, title in said.findings)]) or "nothing"


def main() -> None:
    """Run what is missing, analyse all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", default="", help="regular expression on the names of cases")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--again", action="store_true", help="run the chosen cases again")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    chosen = [case for case in CASES if re.search(options.only, case.name)]
    results: list[tuple[Case, Said, Verdict]] = []
    begin_s = time.monotonic()
    for case in chosen:
        if time.monotonic() - begin_s > options.budget:
            break
        try:
            if options.again and (options.folder / case.name).exists():
                shutil.rmtree(options.folder / case.name)
            launch(case, options.folder)
            results.append((case, *analysed(case, options.folder)))
        except CaseFailedError as error:
            print(f"{case.name} failed:\n{error}", file=sys.stderr, flush=True)
            continue
        _, said, verdict = results[-1]
        wrong = "right" if verdict.is_right else _parts(verdict)
        seconds = time.monotonic() - begin_s
        print(f"{seconds:4.0f} s {case.name}: {wrong}\n    {summary(said)}", flush=True)
    if results:
        text = table(results)
        print(text)
        if options.write is not None:
            write_section(options.write, "scripts", text)


def _parts(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in asdict(verdict).items() if value is not None}


if __name__ == "__main__":
    main()
