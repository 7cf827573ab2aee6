"""Is the line of a bug named? Bugs on known lines of scripts, and twins without any.

``python -m benchmarks.code_lines --folder DIR --write docs/explain/accuracy.md`` launches what DIR
does not hold yet under ``hvdprof run`` and judges the first lines of ``hvdprof analyze``. Runs are
kept: another call analyses them again. Every second launch is the twin without a bug.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.page_section import write_section
from benchmarks.script_faults import ROOT, CaseFailedError, output

PARTS = ROOT / "benchmarks/scripts/lined_parts.py"
PLACES = {
    "transform": ("data", "another file, in `__getitem__`"),
    "worker": ("data", "in a DataLoader worker"),
    "numpy": ("forward", "numpy"),
    "c-call": ("forward", "a call in C that holds the interpreter's lock"),
    "loop": ("forward", "a loop in Python"),
    "hook": ("backward", "a hook of a gradient"),
    "save": ("outside", "a checkpoint every 20 steps"),
}
"""By place of the bug its phase, and what it is."""
ENGINES = ("ddp", "horovod")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch; of the twin without a bug, ``rank`` is -1."""

    number: int
    place: str
    rank: int
    ms: float
    engine: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:03d}-{self.place}-{self.rank}"

    @property
    def line(self) -> int:
        """The line of the bug."""
        mark = f"# mark: {'transform' if self.place == 'worker' else self.place}"
        lines = PARTS.read_text(encoding="utf-8").splitlines()
        return next(number for number, line in enumerate(lines, 1) if mark in line)


@dataclass(frozen=True, slots=True)
class Judged:
    """What of the first lines is right; ``accused`` are findings that name a line."""

    launch: Launch
    cause: bool
    line: bool
    accused: tuple[str, ...]
    headline: str


def launches(number: int) -> list[Launch]:
    """So many launches: bugs in turn under DDP, then under Horovod, each followed by its twin."""
    found = []
    for index in range(number):
        rng = random.Random(f"lines {index // 2}")
        turn, place = divmod(index // 2, len(PLACES))
        rank, ms = rng.randrange(2), rng.uniform(15, 40)
        engine = ENGINES[turn % len(ENGINES)]
        found.append(Launch(index, list(PLACES)[place], -1 if index % 2 else rank, ms, engine))
    return found


def run(one: Launch, folder: Path) -> None:
    """Launch it, unless its run is there.

    Raises:
        CaseFailedError: It failed.
    """
    done = folder / one.name / "done"
    if done.exists():
        return
    command = [
        *(sys.executable, "-m", "hvdprof", "run", "--np", "2", "-q"),
        *(("--launcher", "torchrun") if one.engine == "ddp" else ()),
        *("-o", str(folder / one.name / "run"), "--no-trace", "--"),
        *(sys.executable, str(ROOT / "benchmarks/scripts/lined.py"), "--place", one.place),
        *("--rank", str(one.rank), "--ms", f"{one.ms:.1f}", "--engine", one.engine),
    ]
    done.parent.mkdir(parents=True, exist_ok=True)
    output(command, os.environ | {"PYTHONPATH": str(ROOT)})
    done.write_text(f"{datetime.now(UTC):%Y-%m-%d}", encoding="utf-8")


def judged(one: Launch, folder: Path) -> Judged:
    """What hvdprof says of it.

    Raises:
        CaseFailedError: It cannot be analysed.
    """
    analyze = [sys.executable, "-m", "hvdprof", "analyze", str(folder / one.name / "run")]
    report = json.loads(output([*analyze, "--format", "json"], os.environ))
    headline = str(report["verdict"]["sentence"])
    named = [row for row in report["findings"] if row["code_function"]]
    phase, _ = PLACES[one.place]
    causes = {str(row["cause_id"]) for row in report["findings"]}
    # Behind queues, all ranks may be input-bound, one of them longest.
    longest = f"input-bound (rank {one.rank} waits longest" in headline
    own = f"straggler/{one.rank}/{phase}/"
    is_found = (phase == "data" and longest) or any(cause.startswith(own) for cause in causes)
    return Judged(
        one,
        cause=is_found and f"rank {one.rank}" in headline,
        line=f"{PARTS.name}:{one.line} (" in headline,
        accused=tuple(f"{row['id']}: {row['code_file']}:{row['code_line']}" for row in named),
        headline=headline,
    )


def page_text(results: Sequence[Judged], folder: Path) -> str:
    """The table by place of the bug, and what was missed."""
    lines = [
        "| bug | launches | rank and phase in the first lines | and the line "
        "| twins without a bug | of them with a line accused |",
        "|---|---|---|---|---|---|",
    ]
    groups = [
        (what, [one for one in results if one.launch.place == place])
        for place, (_, what) in PLACES.items()
    ]
    groups += [
        (f"all under {name}", [one for one in results if one.launch.engine == engine])
        for engine, name in zip(ENGINES, ("DDP", "Horovod"), strict=True)
    ]
    for what, own in [*groups, ("all", list(results))]:
        bugs = [one for one in own if one.launch.rank >= 0]
        twins = [one for one in own if one.launch.rank < 0]
        counts = [
            len(bugs),
            sum(one.cause for one in bugs),
            sum(one.cause and one.line for one in bugs),
            len(twins),
            sum(bool(one.accused) for one in twins),
        ]
        lines.append(f"| {what} | {' | '.join(map(str, counts))} |")
    dates = sorted({(folder / one.launch.name / "done").read_text("utf-8") for one in results})
    missed = [
        f"* {one.launch.name}: {one.headline} {'; '.join(one.accused)}"
        for one in results
        if (one.launch.rank >= 0 and not (one.cause and one.line))
        or (one.launch.rank < 0 and one.accused)
    ]
    when = dates[0] + (f" to {dates[-1]}" if len(dates) > 1 else "")
    text = f"{when}: 2 ranks, 150 steps, 15 to 40 ms lost per step, sampled 20 times per second."
    return "\n".join([*lines, "", text, *([""] if missed else []), *missed])


def main() -> None:
    """Launch what is missing, judge all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--launches", type=int, default=28)
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    begin_s, results = time.monotonic(), []
    for one in launches(options.launches):
        is_late = time.monotonic() - begin_s > options.budget
        if is_late and not (options.folder / one.name / "done").exists():
            continue
        try:
            run(one, options.folder)
            results.append(judged(one, options.folder))
        except CaseFailedError as error:
            print(f"{one.name} failed:\n{error}", file=sys.stderr, flush=True)
            continue
        print(f"{time.monotonic() - begin_s:4.0f} s {results[-1]}", flush=True)
    if results:
        text = page_text(results, options.folder)
        print(text)
        if options.write is not None:
            write_section(options.write, "lines", text)


if __name__ == "__main__":
    main()
