"""The throughput of each training log with its uncertainty, from its lines on iterations.

Each line states the mean of the iterations since the line before. Neighbouring lines resemble each
other, so that they count as fewer independent values than there are lines.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.steady_state import steady_window
from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate, mean_of
from hvdprof.model.arrays import Float64s

LEAST_LINES = 2
"""Steady lines that a throughput needs; the first line holds start-up and compilation."""

LEAST_WITH_INTERVAL = 10
"""Fewer lines do not show how much neighbouring ones resemble each other."""


@dataclass(frozen=True, slots=True)
class IterationSeries:
    """What one log says of its throughput.

    ``log_rate`` is the logarithm of samples/s; its error is NaN for fewer than
    ``LEAST_WITH_INTERVAL`` lines and for an effective sample size below 2. ``num_lines`` are
    steady; ``is_steady`` is false where the steady state was not reached.
    """

    log_rate: LogEstimate
    num_lines: int
    is_steady: bool

    @property
    def has_interval(self) -> bool:
        """Whether the log alone gives a 95 % interval."""
        return self.log_rate.degrees >= 1 and not math.isnan(self.log_rate.error)


def iteration_series(iterations: pd.DataFrame) -> dict[str, IterationSeries]:
    """The throughput of every file with enough lines, by file.

    The steady lines of the last batch size count, without the first line of the log: batch over
    mean step, with the standard error of the mean of correlated values.

    Args:
        iterations: Rows of TRAINING_ITERATIONS.
    """
    return {
        str(file): _series(steps, batch)
        for file, rows in iterations.groupby("file", observed=True, sort=False)
        for steps, batch in _of_last_batch_size(rows)
    }


def estimates_of(series: Mapping[str, IterationSeries]) -> dict[str, LogEstimate]:
    """The logarithms of samples/s by file."""
    return {file: one.log_rate for file, one in series.items()}


def notes_on(series: Mapping[str, IterationSeries]) -> Iterator[str]:
    """What limits the intervals of logs, a sentence per file."""
    for file, one in series.items():
        if not one.is_steady:
            yield f"{file}: the iterations do not become steady; warm-up or a change is included."
        if not one.has_interval:
            yield (
                f"{file}: {one.num_lines} lines on iterations are too few, or too much alike, for "
                "an interval."
            )


def _of_last_batch_size(rows: pd.DataFrame) -> Iterator[tuple[Float64s, int]]:
    later = rows.iloc[1:]
    known = later[later["global_batch_size"].notna()]
    if known.empty:
        return
    batch = int(known["global_batch_size"].iloc[-1])
    # Megatron can raise the batch size during a job.
    changed = np.flatnonzero((known["global_batch_size"] != batch).to_numpy(dtype=bool))
    steady = known.iloc[changed[-1] + 1 :] if len(changed) else known
    if len(steady) >= LEAST_LINES:
        yield steady["step_ns"].to_numpy(dtype=np.float64), batch


def _series(steps: Float64s, batch: int) -> IterationSeries:
    window = steady_window(steps)
    steady = steps[window.num_cut :]
    mean = mean_of(steady)
    error = mean.error / mean.value if len(steady) >= LEAST_WITH_INTERVAL else NAN
    log_rate = LogEstimate(math.log(batch * 1e9 / mean.value), error, mean.num_effective - 1)
    return IterationSeries(log_rate, len(steady), window.found)
