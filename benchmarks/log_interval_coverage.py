"""How often the 95 % interval of an efficiency covers the truth, for two training logs.

    python -m benchmarks.log_interval_coverage [--pairs 1000] [--write docs/explain/efficiency.md]

Each pair are the iterations of one job on 8 and on 16 ranks: they vary by 5 % around their means,
and neighbouring lines are correlated.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.analyze.scaling.throughput_scaling import IterationSeries, iteration_series
from hvdprof.analyze.stats.uncertainty import Interval, difference
from tests.builders.iteration_logs import correlated_steps, iteration_rows

LINES = (10, 20, 50, 150, 400)
CORRELATIONS = (0.0, 0.6, 0.9)
SPREAD = 0.05
STEP_MS = (500.0, 270.0)
TRUTH = STEP_MS[0] / STEP_MS[1]

Pair = tuple[IterationSeries, IterationSeries]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of pairs whose speed-up has an interval, and of these of intervals with the truth.

    ``half_width`` is the median of half the intervals, relative to the speed-up.
    """

    known: float
    covered: float
    half_width: float


def main() -> None:
    """Print the table, and put it into a page with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args()
    lines = [
        "| lines | correlation | with interval | covered | half width |",
        "|---|---|---|---|---|",
    ]
    for num_lines in LINES:
        for correlation in CORRELATIONS:
            found = coverage(pairs(num_lines, correlation, options.pairs))
            lines.append(
                f"| {num_lines} | {correlation} | {100 * found.known:.0f} % "
                f"| {100 * found.covered:.0f} % | {100 * found.half_width:.1f} % |"
            )
    table = "\n".join(lines)
    print(table)
    if options.write:
        write_section(options.write, "log intervals", table)


def pairs(num_lines: int, correlation: float, number: int, seed: int = 0) -> Iterator[Pair]:
    """What simulated pairs of logs say, each log of so many lines behind the first."""
    rng = np.random.default_rng(seed)
    steps = {
        f"{pair}-{mean}": correlated_steps(
            rng, num_lines, mean, spread=SPREAD, correlation=correlation
        )
        for pair in range(number)
        for mean in STEP_MS
    }
    logs = iter(iteration_series(iteration_rows(steps)).values())
    yield from zip(logs, logs, strict=True)


def coverage(found: Iterator[Pair]) -> Coverage:
    """How often the intervals of the pairs cover the truth."""
    intervals = [
        difference(own.log_rate, base.log_rate).interval() if both_known(base, own) else None
        for base, own in found
    ]
    known = [one for one in intervals if one is not None]
    return Coverage(
        known=len(known) / len(intervals),
        covered=float(np.mean([covers(one) for one in known])),
        half_width=float(np.median([(one.high - one.low) / 2 / one.value for one in known])),
    )


def both_known(base: IterationSeries, own: IterationSeries) -> bool:
    """Whether both logs have an interval."""
    return base.has_interval and own.has_interval


def covers(speedup: Interval) -> bool:
    """Whether an interval holds the true speed-up."""
    return speedup.low <= TRUTH <= speedup.high


if __name__ == "__main__":
    main()
