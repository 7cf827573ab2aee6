"""How often the 95 % interval of a scaling efficiency covers the truth while the machine drifts.

    python benchmarks/turn_coverage.py [--sweeps 400]

As ``interval_coverage.py``, with a drift of the machine: launches that run one after the other are
compared with those that take turns. The drift is a stationary series with a time constant of 20 s;
a launch that runs alone takes 8 s per model, a turn 1 s.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.interval_coverage import (
    CELLS,
    MODELS,
    NUM_STEPS,
    PATTERNS,
    STEP_NS,
    Spread,
    autoregressive,
)
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.analyze.steps.cells import cell_times
from hvdprof.analyze.steps.step_time_ratio import PairedRatios
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES

LAUNCH_S = 8
DRIFT_S = 20.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=400)
    num_sweeps = parser.parse_args().sweeps
    print("| launches of a cell | drift | spread | run | covered | half width |")
    print("|---|---|---|---|---|---|")
    for drift in (0.05, 0.15):
        for name, spread in PATTERNS.items():
            for num_launches in (3, 5):
                for run, in_turns in (("alone", False), ("in turns", True)):
                    machine = Drift(drift, in_turns)
                    covered, half = coverage(spread, num_launches, num_sweeps, machine)
                    print(
                        f"| {num_launches} | {100 * drift:.0f} % | {name} | {run} | "
                        f"{100 * covered:.0f} % | {100 * half:.1f} % |"
                    )


@dataclass(frozen=True, slots=True)
class Drift:
    """How much the speed of the machine changes, and whether launches take turns."""

    size: float
    in_turns: bool

    def of_launches(
        self, rng: np.random.Generator, num_launches: int
    ) -> dict[tuple[str, int, int, str], float]:
        """The mean drift within the steps of each launch: engine, np, repeat and model."""
        cells = [(model, *cell) for model in MODELS for cell in CELLS]
        seconds = num_launches * len(cells) * LAUNCH_S
        series = self.size * autoregressive(rng, seconds, math.exp(-1 / DRIFT_S))
        means = {}
        for repeat in range(num_launches):
            begin = repeat * len(cells) * LAUNCH_S
            block_s = len(CELLS) * LAUNCH_S
            for at, (model, engine, size) in enumerate(cells):
                if self.in_turns:
                    # Turns of a second, those of the launches of a model one after the other.
                    first = begin + at // len(CELLS) * block_s + at % len(CELLS)
                    own = series[first : first - at % len(CELLS) + block_s : len(CELLS)]
                else:
                    place = at % len(CELLS) * len(MODELS) + at // len(CELLS)
                    own = series[begin + place * LAUNCH_S : begin + (place + 1) * LAUNCH_S]
                means[engine, size, repeat, model] = float(own.mean())
        return means


def coverage(
    spread: Spread, num_launches: int, num_sweeps: int, machine: Drift
) -> tuple[float, float]:
    """Coverage and median half width of the model that is covered worst."""
    rng = np.random.default_rng(1)
    hits: dict[str, list[bool]] = {model: [] for model in MODELS}
    widths: dict[str, list[float]] = {model: [] for model in MODELS}
    for _ in range(num_sweeps):
        times = cell_times(*sweep(rng, spread, num_launches, machine))
        cells = {(cell.model, cell.engine, cell.np): time for cell, time in times.items()}
        ratios = PairedRatios(cells.values(), {model: cells[model, "torch", 1] for model in MODELS})
        for model in MODELS:
            ratio = ratios.ratio(cells[model, "torch", 1], cells[model, "horovod", 2]).interval()
            hits[model].append(ratio.low <= 1 <= ratio.high)
            widths[model].append((ratio.high - ratio.low) / 2)
    worst = min(MODELS, key=lambda model: np.mean(hits[model]))
    return float(np.mean(hits[worst])), float(np.median(widths[worst]))


def sweep(
    rng: np.random.Generator, spread: Spread, num_launches: int, machine: Drift
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """LAUNCHES and SEGMENTS of one simulated sweep."""
    segments, launches = [], []
    drift = machine.of_launches(rng, num_launches)
    for engine, size in CELLS:
        for model in MODELS:
            for repeat in range(num_launches):
                change = spread(model, size, engine) * rng.normal()
                launch_ns = STEP_NS * math.exp(change + drift[engine, size, repeat, model])
                mean = mean_of(launch_ns * (1 + 0.08 * autoregressive(rng, NUM_STEPS, 0.5)))
                names = {"pass_id": f"{engine}-{size}-{repeat}", "segment": model}
                segments.append(
                    dict.fromkeys(SEGMENTS.column_names, 0)
                    | names
                    | {"model": model, "size": size, "engine": engine}
                    | {"mode": "throughput", "status": "done", "repeat": repeat + 1}
                )
                launches.append(
                    dict.fromkeys(LAUNCHES.column_names, 0)
                    | names
                    | {
                        "num_steps": NUM_STEPS,
                        "num_turns": 8 if machine.in_turns else 0,
                        "step_time_ns": mean.value,
                        "step_time_error_ns": mean.error,
                        "num_effective_steps": mean.num_effective,
                    }
                )
    return LAUNCHES.frame(launches), SEGMENTS.frame(segments)


if __name__ == "__main__":
    main()
