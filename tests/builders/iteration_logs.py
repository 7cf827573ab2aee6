"""Logs of Megatron whose iterations are a known autocorrelated series."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.interval_coverage import autoregressive
from hvdprof.model.arrays import Float64s
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS

BATCH = 256


def correlated_steps(
    rng: np.random.Generator, num: int, mean_ms: float, *, spread: float, correlation: float
) -> Float64s:
    """Step times in ms of a first-order autoregressive series; ``spread`` is relative."""
    return mean_ms * (1 + spread * autoregressive(rng, num, correlation))


def iteration_rows(steps_ms: Mapping[str, Float64s], *, batch: int = BATCH) -> pd.DataFrame:
    """TRAINING_ITERATIONS of logs by name, a slow first line before the given steps of each."""
    logs = {file: np.append(20 * steps[:1], steps) for file, steps in steps_ms.items()}
    number = np.concatenate([np.arange(1, len(steps) + 1) for steps in logs.values()])
    return TRAINING_ITERATIONS.frame(
        pd.DataFrame(
            {
                "file": np.repeat(list(logs), [len(steps) for steps in logs.values()]),
                "line": number,
                "iteration": number,
                "step_ns": np.round(np.concatenate([*logs.values()]) * 1e6).astype(np.int64),
                "global_batch_size": batch,
                "tflops_per_gpu": np.nan,
                "np": 8,
            }
        )
    )


def write_log(path: Path, num_ranks: int, steps_ms: Float64s) -> Path:
    """A log that Megatron prints, with a slow first iteration before the given steps."""
    steps = [20 * float(steps_ms[0]), *steps_ms.tolist()]
    lines = [
        f" [2026-03-01 10:00:00] iteration {number:8d}/    5000 | consumed samples: "
        f"{number * BATCH:12d} | elapsed time per iteration (ms): {step:.1f} | global batch size: "
        f"{BATCH:5d} | lm loss: 1.0E+01 |\n"
        for number, step in enumerate(steps, start=1)
    ]
    path.write_text(f"using world size: {num_ranks}, data-parallel size: 8\n" + "".join(lines))
    return path
