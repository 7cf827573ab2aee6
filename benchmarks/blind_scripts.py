"""Scripts and bugs drawn from seeds, which the rules were not developed on: what is named?

``python -m benchmarks.blind_scripts --folder DIR --first-seed N --write docs/explain/accuracy.md``
launches the script of each seed that DIR does not hold yet under ``hvdprof run``, those of odd
seeds beside a process that takes a core now and then. What ``hvdprof analyze --format json`` says
is judged by ``blind_judgement.py``, and the tables put into the page. Runs are kept: another call
analyses them again. ``SCRIPT_PRIORITY=-15`` gives the ranks of even seeds priority over other work.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.blind_draw import DDP, FSDP, KINDS, Drawn, draw
from benchmarks.blind_judgement import Judgement, first_lines, judge
from benchmarks.page_section import write_section
from benchmarks.script_fault_judgement import Said
from benchmarks.script_faults import ROOT, TIMEOUT_S, CaseFailedError, lost, output, summary
from benchmarks.scripts.fault import LOG_FOLDER
from benchmarks.scripts.priority import PRIORITY

Result = tuple[Drawn, Said, Judgement]


def command(drawn: Drawn, run: Path) -> list[str]:
    """The command that launches a script."""
    torchrun = drawn.style in (DDP, FSDP)
    return [
        *(sys.executable, "-m", "hvdprof", "run", "--np", str(drawn.np), "-q", "-o", str(run)),
        *(("--launcher", "torchrun") if torchrun else ("--controller", "gloo")),
        *("--no-trace", "--", sys.executable, str(ROOT / "benchmarks/scripts/drawn.py")),
        *("--seed", str(drawn.seed)),
    ]


def take_a_core(seed: int) -> None:
    """Take a core for 0.5 to 3 s, leave it for as long, and again."""
    os.setsid()
    rng, begin_s = random.Random(seed), time.monotonic()
    while time.monotonic() < begin_s + TIMEOUT_S:
        end_s = time.monotonic() + rng.uniform(0.5, 3)
        while time.monotonic() < end_s:
            pass
        time.sleep(rng.uniform(0.5, 3))


def launch(drawn: Drawn, folder: Path) -> None:
    """Launch a script, unless its run is there; ``done`` holds the date and the load then.

    Raises:
        CaseFailedError: The run failed.
    """
    run, losses, done = (folder / drawn.name / name for name in ("run", "lost", "done"))
    if done.exists():
        return
    if run.parent.exists():
        shutil.rmtree(run.parent)
    losses.mkdir(parents=True)
    environment = os.environ | {LOG_FOLDER: str(losses), "PYTHONPATH": str(ROOT)}
    beside = multiprocessing.get_context("spawn").Process(
        target=take_a_core, args=(drawn.seed,), daemon=True
    )
    if drawn.is_beside:
        # With priority, neither would wait for the other, or both would stall the kernel's threads.
        environment.pop(PRIORITY, None)
        beside.start()
    try:
        output(command(drawn, run), environment)
    finally:
        if drawn.is_beside:
            beside.terminate()
            beside.join()
    done.write_text(f"{datetime.now(UTC):%Y-%m-%d} {os.getloadavg()[0]:.1f}", encoding="utf-8")


def analysed(drawn: Drawn, folder: Path) -> Result:
    """What hvdprof says of the run of a script, and what of it is right.

    Raises:
        CaseFailedError: It cannot be analysed.
    """
    analyze = [sys.executable, "-m", "hvdprof", "analyze", str(folder / drawn.name / "run")]
    report = json.loads(output([*analyze, "--format", "json"], os.environ))
    return drawn, *judge(drawn, report, lost(folder / drawn.name / "lost", drawn.np))


def page_text(results: Sequence[Result], folder: Path) -> str:
    """The tables by kind of bug and by half, what was missed, and when it was recorded."""
    by_kind = [(kind, [one for one in results if one[0].kind == kind]) for kind in KINDS]
    halves = {False: "alone", True: "beside a process that takes a core"}
    by_half = [
        (half, [one for one in results if one[0].is_beside is is_beside])
        for is_beside, half in halves.items()
    ]
    parts = [_table("bug", [*by_kind, ("all", list(results))]), _table("launches", by_half)]
    apart = [one for one in results if one[2].why_not]
    reasons = sorted({judgement.why_not for _, _, judgement in apart})
    counts = [f"{why}: {sum(one[2].why_not == why for one in apart)}." for why in reasons]
    notes = [(folder / one[0].name / "done").read_text(encoding="utf-8") for one in results]
    dates = sorted({note.split()[0] for note in notes})
    loads = sorted(float(note.split()[1]) for note in notes)
    when = f"Recorded on {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "")
    parts.append(
        " ".join(
            [
                f"{when}, load average {loads[0]:.0f} to {loads[-1]:.0f}; seeds "
                f"{min(one[0].seed for one in results)} to {max(one[0].seed for one in results)}.",
                *(f"Not in the table: {count}" for count in counts),
            ]
        )
    )
    missed = [one for one in results if is_missed(one[2])]
    rows = [_missed_row(*one) for one in missed]
    if rows:
        head = ["| seed | script | bug | wrong | what hvdprof says |", "|---|---|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)


def is_missed(judgement: Judgement) -> bool:
    """Whether something is wrong, in a launch that counts."""
    return not judgement.why_not and (not judgement.is_right or judgement.has_false_name)


def _table(what: str, rows: Sequence[tuple[str, Sequence[Result]]]) -> str:
    lines = [
        f"| {what} | launches | right ranks | right phase | both | behind transfer | listed "
        "| false names | error of the cost: median, 90 % below |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, results in rows:
        judged = [judgement for _, _, judgement in results if not judgement.why_not]
        errors = [abs(one.cost_error) for one in judged if one.cost_error is not None]
        cost = f"{statistics.median(errors):.0%}, {np.quantile(errors, 0.9):.0%}" if errors else ""
        cells = [
            f"{sum(one.ranks for one in judged)}",
            _count([one.phase for one in judged]),
            f"{sum(one.is_right for one in judged)}",
            f"{sum(one.is_behind and one.is_right for one in judged)}",
            _count([one.is_listed for one in judged]),
            f"{sum(one.has_false_name for one in judged)}",
            cost,
        ]
        if judged:
            lines.append(f"| {name} | {len(judged)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _count(values: Sequence[bool | None]) -> str:
    asked = [value for value in values if value is not None]
    return f"{sum(asked)} of {len(asked)}" if asked else ""


def _missed_row(drawn: Drawn, said: Said, judgement: Judgement) -> str:
    parts = {
        "ranks": not judgement.ranks,
        "phase": judgement.phase is False,
        "false name": judgement.has_false_name,
    }
    bugs = [f"{phase} {'+'.join(map(str, ranks))}" for phase, ranks in drawn.bugs.items()]
    script = f"{drawn.style}, {drawn.np} ranks{', beside' if drawn.is_beside else ''}"
    loss = first_lines(said).partition("largest loss: ")[2] or "no loss"
    wrong = ", ".join(name for name, is_wrong in parts.items() if is_wrong)
    bug = ": ".join([drawn.kind, *([", ".join(bugs)] if bugs else [])])
    return f"| {drawn.seed} | {script} | {bug} | {wrong} | {loss} ({summary(said)}) |"


def main() -> None:
    """Launch what is missing, analyse all, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1, help="launches at a time")
    parser.add_argument("--only", default="", help="regular expression on the names of scripts")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    begin_s = time.monotonic()

    def result(drawn: Drawn) -> Result | None:
        is_late = time.monotonic() - begin_s > options.budget
        if is_late and not (options.folder / drawn.name / "done").exists():
            return None
        try:
            launch(drawn, options.folder)
            found = analysed(drawn, options.folder)
        except CaseFailedError as error:
            print(f"{drawn.name} failed:\n{error}", file=sys.stderr, flush=True)
            return None
        what = found[2].why_not or ("MISSED" if is_missed(found[2]) else "right")
        seconds = time.monotonic() - begin_s
        print(f"{seconds:4.0f} s {drawn.name} {drawn.bugs}: {what}\n    {found[2]}", flush=True)
        print(f"    {first_lines(found[1])}\n    {summary(found[1])}", flush=True)
        return found

    seeds = range(options.first_seed, options.first_seed + options.launches)
    chosen = [one for one in map(draw, seeds) if re.search(options.only, one.name)]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = [one for one in pool.map(result, chosen) if one is not None]
    if results:
        text = page_text(results, options.folder)
        print(text)
        if options.write is not None:
            write_section(options.write, "blind", text)


if __name__ == "__main__":
    main()
