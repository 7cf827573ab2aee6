"""How often the 95 % interval of a scaling efficiency covers the truth, by simulation.

    python benchmarks/interval_coverage.py [--sweeps 400]

Each sweep has three models at np 1 (plain torch and Horovod) and np 2 (Horovod). Steps vary by 8 %
with autocorrelation 0.5; launches differ by the spread of their pattern. A row shows, for the worst
covered model, the share of sweeps whose interval covers the true ratio, and its median half width.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import difference, mean_of
from hvdprof.analyze.steps.cells import cell_times
from hvdprof.model.tables.run_tables import LAUNCHES, SEGMENTS

MODELS = ("a", "b", "c")
CELLS = (("torch", 1), ("horovod", 1), ("horovod", 2))
STEP_NS = 1e7
NUM_STEPS = 40

Spread = Callable[[str, int, str], float]

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
    num_sweeps = parser.parse_args().sweeps
    print("| launches of a cell | spread | covered | half width |")
    print("|---|---|---|---|")
    for name, spread in PATTERNS.items():
        for num_launches in (2, 3, 5):
            covered, half = coverage(spread, num_launches, num_sweeps)
            print(f"| {num_launches} | {name} | {100 * covered:.0f} % | {100 * half:.1f} % |")


def coverage(spread: Spread, num_launches: int, num_sweeps: int) -> tuple[float, float]:
    """Coverage and median half width of the model that is covered worst."""
    rng = np.random.default_rng(1)
    hits: dict[str, list[bool]] = {model: [] for model in MODELS}
    widths: dict[str, list[float]] = {model: [] for model in MODELS}
    for _ in range(num_sweeps):
        times = cell_times(*sweep(rng, spread, num_launches))
        logs = {(c.model, c.engine, c.np): one.log_step_time for c, one in times.items()}
        for model in MODELS:
            ratio = difference(logs[model, "torch", 1], logs[model, "horovod", 2]).interval()
            hits[model].append(ratio.low <= 1 <= ratio.high)
            widths[model].append((ratio.high - ratio.low) / 2)
    worst = min(MODELS, key=lambda model: np.mean(hits[model]))
    return float(np.mean(hits[worst])), float(np.median(widths[worst]))


def sweep(
    rng: np.random.Generator, spread: Spread, num_launches: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """LAUNCHES and SEGMENTS of one simulated sweep."""
    segments, launches = [], []
    for engine, size in CELLS:
        for model in MODELS:
            for repeat in range(num_launches):
                launch_ns = STEP_NS * math.exp(spread(model, size, engine) * rng.normal())
                mean = mean_of(launch_ns * (1 + 0.08 * autoregressive(rng, NUM_STEPS, 0.5)))
                names = {"pass_id": f"{engine}-{size}-{repeat}", "segment": model}
                segments.append(
                    dict.fromkeys(SEGMENTS.column_names, 0)
                    | names
                    | {"model": model, "size": size, "engine": engine}
                    | {"mode": "throughput", "status": "done"}
                )
                launches.append(
                    dict.fromkeys(LAUNCHES.column_names, 0)
                    | names
                    | {
                        "num_steps": NUM_STEPS,
                        "step_time_ns": mean.value,
                        "step_time_error_ns": mean.error,
                        "num_effective_steps": mean.num_effective,
                    }
                )
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
