"""How often the 95 % interval of a scaling efficiency covers the truth, by simulation.

    python benchmarks/interval_coverage.py [--sweeps 400] [--looks]

Each sweep has three models at np 1 (plain torch and Horovod) and np 2 (Horovod). Steps vary by 8 %
with autocorrelation 0.5; launches differ by the spread of their pattern. A row shows, for the worst
covered model, the share of sweeps whose interval covers the true ratio, and its median half width.

With ``--looks`` sweeps stop as ``--precision`` stops them, with one model or three.
"""

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import Interval, LogEstimate, difference, mean_of
from hvdprof.analyze.steps.cells import cell_times
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.rundir.stopping import FIRST_LOOK, stopping_confidence

MODELS = ("a", "b", "c")
CELLS = (("torch", 1), ("horovod", 1), ("horovod", 2))
STEP_NS = 1e7
NUM_STEPS = 40

JUDGED_CELLS = (("torch", 1), ("horovod", 2))
MOST_REPEATS = 10

Spread = Callable[[str, int, str], float]
Rows = tuple[dict[str, object], dict[str, object]]
"""A row of LAUNCHES and the row of SEGMENTS that it belongs to."""

PATTERNS: dict[str, Spread] = {
    "all launches differ by 2 %": lambda model, np_, engine: 0.02,
    "one model by 8 %, others by 1 %": lambda model, np_, engine: 0.08 if model == "a" else 0.01,
    "np=2 by 8 %, np=1 by 1 %": lambda model, np_, engine: 0.08 if np_ == 2 else 0.01,
    "one cell by 8 %, others by 1 %": lambda model, np_, engine: (
        0.08 if (model, np_) == ("a", 2) else 0.01
    ),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=400)
    parser.add_argument("--looks", action="store_true", help="stop by precision")
    given = parser.parse_args()
    num_sweeps = given.sweeps
    if given.looks:
        print_looks(num_sweeps)
        return
    print("| launches of a cell | spread | covered | half width |")
    print("|---|---|---|---|")
    for name, spread in PATTERNS.items():
        for num_launches in (2, 3, 5):
            covered, half = coverage(spread, num_launches, num_sweeps)
            print(f"| {num_launches} | {name} | {100 * covered:.0f} % | {100 * half:.1f} % |")


def print_looks(num_sweeps: int) -> None:
    """Print the table of sweeps that stop when they are known well enough."""
    print("| spread | precision | models | covered | repeats |")
    print("|---|---|---|---|---|")
    for name, spread in PATTERNS.items():
        for precision in (0.05, 0.1):
            for models in (MODELS[:1], MODELS):
                covered, repeats = coverage_of_looks(spread, precision, models, num_sweeps)
                print(
                    f"| {name} | {100 * precision:.0f} % | {len(models)} | {100 * covered:.0f} % "
                    f"| {repeats:.1f} |",
                    flush=True,
                )


def coverage_of_looks(
    spread: Spread, precision: float, models: Sequence[str], num_sweeps: int
) -> tuple[float, float]:
    """Coverage of the model that is covered worst, and the mean number of repeats."""
    rng = np.random.default_rng(1)
    hits: dict[str, list[bool]] = {model: [] for model in models}
    repeats = []
    for _ in range(num_sweeps):
        rows = [
            one for repeat in range(1, FIRST_LOOK) for one in launched(rng, spread, repeat, models)
        ]
        wide, repeat = list(models), FIRST_LOOK - 1
        while wide and repeat < MOST_REPEATS:
            repeat += 1
            cells = CELLS if repeat <= FIRST_LOOK else JUDGED_CELLS
            chosen = models if repeat <= FIRST_LOOK else wide
            rows += launched(rng, spread, repeat, chosen, cells)
            ratios = ratios_of(rows, models)
            level = stopping_confidence(repeat, MOST_REPEATS)
            wide = [m for m in models if half_width(ratios[m].interval(level)) > precision]
        for model in models:
            reported = ratios[model].interval()
            hits[model].append(reported.low <= 1 <= reported.high)
        repeats.append(repeat)
    return min(float(np.mean(hits[model])) for model in models), float(np.mean(repeats))


def ratios_of(rows: Sequence[Rows], models: Sequence[str]) -> dict[str, LogEstimate]:
    """The logarithm of the efficiency of each model at np 2 against plain torch."""
    times = cell_times(*frames(rows))
    logs = {(c.model, c.engine, c.np): one.log_step_time for c, one in times.items()}
    return {m: difference(logs[m, "torch", 1], logs[m, "horovod", 2]) for m in models}


def half_width(interval: Interval) -> float:
    """Half of an interval."""
    return (interval.high - interval.low) / 2


def coverage(spread: Spread, num_launches: int, num_sweeps: int) -> tuple[float, float]:
    """Coverage and median half width of the model that is covered worst."""
    rng = np.random.default_rng(1)
    hits: dict[str, list[bool]] = {model: [] for model in MODELS}
    widths: dict[str, list[float]] = {model: [] for model in MODELS}
    for _ in range(num_sweeps):
        repeats = range(1, num_launches + 1)
        rows = [one for repeat in repeats for one in launched(rng, spread, repeat)]
        for model, estimate in ratios_of(rows, MODELS).items():
            ratio = estimate.interval()
            hits[model].append(ratio.low <= 1 <= ratio.high)
            widths[model].append(half_width(ratio))
    worst = min(MODELS, key=lambda model: np.mean(hits[model]))
    return float(np.mean(hits[worst])), float(np.median(widths[worst]))


def launched(
    rng: np.random.Generator,
    spread: Spread,
    repeat: int,
    models: Sequence[str] = MODELS,
    cells: Sequence[tuple[str, int]] = CELLS,
) -> list[Rows]:
    """The rows of LAUNCHES and SEGMENTS of one simulated repeat."""
    rows: list[Rows] = []
    for engine, size in cells:
        for model in models:
            launch_ns = STEP_NS * math.exp(spread(model, size, engine) * rng.normal())
            mean = mean_of(launch_ns * (1 + 0.08 * autoregressive(rng, NUM_STEPS, 0.5)))
            names = {"pass_id": f"{engine}-{size}-{repeat}", "segment": model}
            segment = {"model": model, "size": size, "engine": engine, "mode": "throughput"}
            launch: dict[str, object] = {
                "num_steps": NUM_STEPS,
                "step_time_ns": mean.value,
                "step_time_error_ns": mean.error,
                "num_effective_steps": mean.num_effective,
            }
            rows.append((names | launch, names | segment | {"status": "done"}))
    return rows


def frames(rows: Sequence[Rows]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """LAUNCHES and SEGMENTS; what the simulation leaves out is 0."""
    launches = [dict.fromkeys(LAUNCHES.column_names, 0) | launch for launch, _ in rows]
    segments = [dict.fromkeys(SEGMENTS.column_names, 0) | segment for _, segment in rows]
    return LAUNCHES.frame(launches), SEGMENTS.frame(segments)


def autoregressive(rng: np.random.Generator, num: int, correlation: float) -> np.ndarray:
    """A stationary series of mean 0 and variance 1 with that correlation of neighbours."""
    values = np.empty(num)
    values[0] = rng.normal()
    for i in range(1, num):
        values[i] = correlation * values[i - 1] + math.sqrt(1 - correlation**2) * rng.normal()
    return values


if __name__ == "__main__":
    main()
