"""Is the line of a bug named? Scripts drawn from seeds, with bugs on known lines, and clean twins.

``python -m benchmarks.code_lines --folder DIR --first-seed N --write docs/explain/accuracy.md``
launches the script of each seed that DIR does not hold yet under ``hvdprof run``, and every second
script without its bug, too. What ``hvdprof analyze`` says is judged. Runs are kept: another call
analyses them again.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.line_draw import DDP, ENGINES, SITES, WAYS, Script, draw
from benchmarks.line_script import Written, write
from benchmarks.page_section import write_section
from benchmarks.script_faults import ROOT, CaseFailedError, output
from hvdprof.analyze.stats.uncertainty import wilson

IDLE = 10
"""Scripts without bugs whose input and logging take no time."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What of the first lines is right.

    ``accused`` are findings that name a line. ``usual`` are those of them that name no rank, but a
    line where all ranks do spend that time.
    """

    script: Script
    cause: bool
    line: bool
    accused: tuple[str, ...]
    usual: tuple[str, ...]
    headline: str

    @property
    def is_accused(self) -> bool:
        """Whether a finding accuses a line that all ranks do not spend that time in."""
        return self.accused != self.usual

    @property
    def is_missed(self) -> bool:
        """Whether something is wrong: another line, or any line of a clean script."""
        return self.is_accused if self.script.rank < 0 else self.cause and not self.line


def scripts(first_seed: int, number: int) -> list[Script]:
    """So many scripts with bugs, every second one followed by its twin without."""
    found = []
    for seed in range(first_seed, first_seed + number):
        found.append(draw(seed))
        if (seed - first_seed) % 2 == 0:
            found.append(found[-1].clean())
    return found


def run(script: Script, folder: Path) -> Written:
    """Launch it, unless its run is there.

    Raises:
        CaseFailedError: It failed.
    """
    place = folder / script.name
    written = write(script, place / "script")
    if (place / "done").exists():
        return written
    paths = (place / "script", place / "script/site-packages", ROOT)
    command = [
        *(sys.executable, "-m", "hvdprof", "run", "--np", "2", "-q"),
        *(("--launcher", "torchrun") if script.engine == DDP else ()),
        *("-o", str(place / "run"), "--no-trace", "--no-net", "--", sys.executable),
        *written.start,
    ]
    output(command, os.environ | {"PYTHONPATH": ":".join(map(str, paths))})
    (place / "done").write_text(f"{datetime.now(UTC):%Y-%m-%d}", encoding="utf-8")
    return written


def judged(script: Script, folder: Path, written: Written) -> Judged:
    """What hvdprof says of it.

    Raises:
        CaseFailedError: It cannot be analysed.
    """
    analyze = [sys.executable, "-m", "hvdprof", "analyze", str(folder / script.name / "run")]
    report = json.loads(output([*analyze, "--format", "json"], os.environ))
    headline = str(report["verdict"]["sentence"])
    named = {
        f"{row['id']}: {Path(row['code_file']).name}:{row['code_line']}": row
        for row in report["findings"]
        if row["code_function"]
    }
    causes = {str(row["cause_id"]) for row in report["findings"]}
    # Behind queues, all ranks may be input-bound, one of them longest.
    longest = f"input-bound (rank {script.rank} waits longest" in headline
    own = f"straggler/{script.rank}/{script.phase}/"
    is_found = (script.phase == "data" and longest) or any(one.startswith(own) for one in causes)
    return Judged(
        script,
        cause=is_found and f"rank {script.rank}" in headline.lower(),
        line=f"{written.bug} (" in headline,
        accused=tuple(named),
        usual=tuple(
            text
            for text, row in named.items()
            if text.split(": ")[1] in written.usual
            and not str(row["cause_id"]).startswith("straggler/")
        ),
        headline=headline,
    )


def page_text(results: Sequence[Judged], folder: Path) -> str:
    """The table by place of the bug, way and engine, and what was missed."""
    lines = [
        "| bug | launches | rank and phase in the first lines | and the line "
        "| clean twins | of them with a line accused | of them with a usual line named |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = [
        *((what, [r for r in results if r.script.site == s]) for s, (_, what) in SITES.items()),
        *((f"*{way}*", [r for r in results if r.script.way == way]) for way in WAYS),
        *((f"*{e}*", [r for r in results if r.script.engine == e]) for e in ENGINES),
        ("input and logging take no time", [r for r in results if r.script.is_idle]),
        ("all", list(results)),
    ]
    for what, own in groups:
        lines.append(f"| {what} | {' | '.join(map(str, _counts(own)))} |")
    _, causes, right, twins, accused, _ = _counts(results)
    ends = [
        f"{count} of {of}: {low:.0%} to {high:.0%}"
        for count, of in ((right, causes), (accused, twins))
        for low, high in [_ends(count, of)]
    ]
    dates = sorted({(folder / one.script.name / "done").read_text("utf-8") for one in results})
    when = dates[0] + (f" to {dates[-1]}" if len(dates) > 1 else "")
    seeds, idle = (
        [one.script.seed for one in results if one.script.is_idle is is_idle] or [0]
        for is_idle in (False, True)
    )
    text = (
        f"Right lines {ends[0]}; lines accused without a bug {ends[1]} (95 %, Wilson). Recorded on "
        f"{when}, seeds {min(seeds)} to {max(seeds)}, without input {min(idle)} to {max(idle)}."
    )
    missed = [
        f"* {one.script.name}: {one.headline} {'; '.join(one.accused)}"
        for one in results
        if one.is_missed
    ]
    unnamed = [
        f"* {one.script.name}, rank {one.script.rank}, {one.script.phase}: {one.headline}"
        for one in results
        if one.script.rank >= 0 and not one.cause
    ]
    parts = [*lines, "", text]
    if missed:
        parts += ["", "Wrong lines:", "", *missed]
    if unnamed:
        parts += ["", "Another rank or phase in the first lines:", "", *unnamed]
    return "\n".join(parts)


def _counts(results: Sequence[Judged]) -> tuple[int, ...]:
    bugs = [one for one in results if one.script.rank >= 0]
    twins = [one for one in results if one.script.rank < 0]
    causes = [one for one in bugs if one.cause]
    right = sum(one.line for one in causes)
    accused = sum(one.is_accused for one in twins)
    return len(bugs), len(causes), right, len(twins), accused, sum(bool(o.usual) for o in twins)


def _ends(count: int, of: int) -> tuple[float, float]:
    low, high = wilson(np.array([count / max(of, 1)]), np.array([float(max(of, 1))]))
    return float(low[0]), float(high[0])


def main() -> None:
    """Launch what is missing, judge all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--scripts", type=int, default=20, help="scripts with a bug")
    parser.add_argument("--idle-seed", type=int, default=20, help="of scripts without any loss")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    begin_s, results = time.monotonic(), []
    chosen = scripts(options.first_seed, options.scripts)
    chosen += [draw(seed).idle() for seed in range(options.idle_seed, options.idle_seed + IDLE)]
    for one in chosen:
        is_late = time.monotonic() - begin_s > options.budget
        if is_late and not (options.folder / one.name / "done").exists():
            continue
        try:
            results.append(judged(one, options.folder, run(one, options.folder)))
        except CaseFailedError as error:
            print(f"{one.name} failed:\n{error}", file=sys.stderr, flush=True)
            continue
        what = "MISSED" if results[-1].is_missed else "right" if results[-1].cause else ""
        print(f"{time.monotonic() - begin_s:4.0f} s {what} {results[-1]}", flush=True)
    if results:
        text = page_text(results, options.folder)
        print(text)
        if options.write is not None:
            write_section(options.write, "lines", text)


if __name__ == "__main__":
    main()
