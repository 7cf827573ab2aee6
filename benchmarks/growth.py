"""How ``hvdprof analyze`` of a run grows: ``python -m benchmarks.growth``.

Synthetic runs (``many_ranks_run``) of 64 to 4,096 ranks, and of 250 to 4,000 steps; of each, CPU
seconds and largest memory from raw files, and again from the cache of finished analyses. A
slope is that of the logarithms between the two largest runs: 1 where twice as much takes twice as
long. The plot goes to docs/images/growth.svg.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.many_ranks_run import write_many_ranks
from benchmarks.page_section import write_section
from hvdprof.ingest.storage.parquet_cache import FOLDER
from hvdprof.rundir.written_file import write_whole

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.svg"
_SHOWN = "![CPU seconds of analyze by ranks and by steps](../images/growth.svg)"
RANKS, STEPS = (64, 256, 1024, 4096), (250, 1000, 4000)
STEPS_OF_RANKS, RANKS_OF_STEPS = 20, 8
_COLOURS = {"ranks": "#0072b2", "steps": "#d55e00"}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of so many of what varies; CPU seconds from raw files and again, memory in MB."""

    number: int
    cold_s: float
    warm_s: float
    peak_mb: float


def main() -> None:
    """Print the table, and put it into a page with ``--write``, beside the plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--ranks", type=_numbers, default=RANKS)
    parser.add_argument("--steps", type=_numbers, default=STEPS)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args()
    found = {
        "ranks": [measured(number, STEPS_OF_RANKS, number) for number in options.ranks],
        "steps": [measured(RANKS_OF_STEPS, number, number) for number in options.steps],
    }
    table = table_of(found)
    print(table)
    if options.write:
        write_section(options.write, "growth", f"{table}\n\n{_SHOWN}")
        write_whole(PICTURE, plot_of(found))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def measured(num_ranks: int, num_steps: int, number: int) -> Run:
    """One run, written, analyzed twice and deleted."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_many_ranks(Path(folder) / "run", num_ranks, num_steps)
        shutil.rmtree(run / FOLDER, ignore_errors=True)
        cold_s, peak_mb = _analyze(run)
        warm_s, _ = _analyze(run)
    return Run(number, cold_s, warm_s, peak_mb)


def _analyze(run: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "hvdprof", "analyze", str(run)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hvdprof analyze ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def slope(runs: Sequence[Run]) -> float:
    """The slope between the two largest runs, both on scales of logarithms."""
    small, large = runs[-2:]
    return math.log(large.cold_s / small.cold_s) / math.log(large.number / small.number)


def table_of(found: dict[str, list[Run]]) -> str:
    """Each run, and the slope in the line of the largest."""
    lines = ["| run | CPU seconds | again | peak memory | slope |", "|---|---|---|---|---|"]
    fixed = {"ranks": f"{STEPS_OF_RANKS} steps", "steps": f"{RANKS_OF_STEPS} ranks"}
    for what, runs in found.items():
        for run in runs:
            last = f"{slope(runs):.2f}" if run is runs[-1] and len(runs) > 1 else ""
            lines.append(
                f"| {run.number:,} {what}, {fixed[what]} | {run.cold_s:.1f} | {run.warm_s:.1f} "
                f"| {run.peak_mb:,.0f} MB | {last} |"
            )
    return "\n".join(lines)


def plot_of(found: dict[str, list[Run]]) -> str:
    """CPU seconds by ranks and by steps as SVG, on scales of logarithms."""
    every = [run for runs in found.values() for run in runs]
    low_x, high_x = (of(run.number for run in every) for of in (min, max))
    decades = range(
        math.floor(math.log10(min(run.cold_s for run in every))),
        math.ceil(math.log10(max(run.cold_s for run in every))) + 1,
    )

    def x(number: int) -> float:
        return 60 + 520 * math.log(number / low_x) / math.log(high_x / low_x)

    def y(seconds: float) -> float:
        return 290 - 250 * (math.log10(seconds) - decades[0]) / (decades[-1] - decades[0])

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" role="img" '
        'font-family="sans-serif" font-size="12">',
        "<title>CPU seconds of hvdprof analyze by ranks and by steps</title>",
        '<rect width="640" height="340" fill="#fff"/>',
    ]
    for decade in decades:
        at = y(10**decade)
        parts.append(f'<path d="M60 {at:.1f}H580" stroke="#ddd"/>')
        parts.append(f'<text x="52" y="{at + 4:.1f}" text-anchor="end">{10.0**decade:g} s</text>')
    behind = 0.0
    for number in sorted({run.number for run in every}):
        # Numbers of ranks and of steps may be near each other.
        if x(number) > behind:
            parts.append(
                f'<text x="{x(number):.1f}" y="310" text-anchor="middle">{number:,}</text>'
            )
            behind = x(number) + 40
    for what, runs in found.items():
        points = [(x(run.number), y(run.cold_s)) for run in runs]
        line = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        colour = _COLOURS[what]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        left, top = points[-1]
        name = f"{what}, slope {slope(runs):.2f}" if len(runs) > 1 else what
        parts.append(
            f'<text x="{left:.1f}" y="{top - 10:.1f}" fill="{colour}" text-anchor="end">{name}'
            "</text>"
        )
    return "\n".join(
        [*parts, '<text x="320" y="332" text-anchor="middle">number</text>', "</svg>\n"]
    )


if __name__ == "__main__":
    main()
