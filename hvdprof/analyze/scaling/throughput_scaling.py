"""Scaling of the throughputs of tables and training logs against the smallest size.

Each line states the mean of the iterations since the line before. Neighbouring lines resemble each
other, so that they count as fewer independent values than there are lines.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.scaling.efficiency import karp_flatt
from hvdprof.analyze.stats.steady_state import steady_window
from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate, difference, mean_of
from hvdprof.model.arrays import Float64s, FrameRow, is_missing
from hvdprof.model.tables.log_tables import THROUGHPUT_SCALING
from hvdprof.model.tables.printed_tables import ITERATION_SERIES

_POOL = "series"
_MANY = 10_000
"""Degrees of freedom with which an interval is as wide as the +- that is printed."""

LEAST_LINES = 2
"""Steady lines that a throughput needs; the first line holds start-up and compilation."""

LEAST_WITH_INTERVAL = 10
"""Fewer lines do not show how much neighbouring ones resemble each other."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """A throughput, samples/s, and its logarithm with its error, NaN where unknown."""

    rate: float
    log: LogEstimate

    @classmethod
    def of(cls, log: LogEstimate) -> "_Rate":
        return cls(math.exp(log.value), log)

    @classmethod
    def without_error(cls, rate: float) -> "_Rate":
        return cls(rate, LogEstimate(math.log(rate) if rate > 0 else NAN, NAN, 0))


def throughput_scaling(
    throughput: pd.DataFrame,
    *,
    repeats: bool = False,
    logs: Mapping[str, LogEstimate] | None = None,
) -> pd.DataFrame:
    """The rows of THROUGHPUT_SCALING for rows of THROUGHPUT.

    Efficiency is (x_N / N) / (x_N0 / N0), speed-up x_N / x_N0, for a fixed batch size
    per rank (weak scaling) and for a fixed global batch.

    Args:
        throughput: Rows of THROUGHPUT.
        repeats: Rows of one series and size are repeats of one measurement: their geometric mean
            counts, and their spread, pooled over the sizes, gives the intervals (Student t).
            Otherwise such rows stay separate, and their geometric mean is the baseline.
        logs: By file, the logarithm of the samples/s of its ITERATION_SERIES with its error, which
            then stand for its row. They give the intervals where no size is repeated; repeats
            never make an interval narrower than they do; so it is with ``error`` of THROUGHPUT.
    """
    rows: list[dict[str, object]] = []
    for series, members in throughput.groupby("series", observed=True, sort=False):
        known = (logs or {}) if str(series) in ITERATION_SERIES else {}
        valid = members[members["samples_per_s"] > 0] if repeats else members
        ordered = valid.sort_values("np", kind="stable")
        own = _of_repeats(ordered, known) if repeats else _of_single_rows(ordered, known)
        rows += [{"series": str(series), **row} for row in own]
    return THROUGHPUT_SCALING.frame(rows)


def _of_single_rows(
    ordered: pd.DataFrame, logs: Mapping[str, LogEstimate]
) -> Iterator[dict[str, object]]:
    sizes = [int(size) for size in ordered["np"]]
    rates = _rates(ordered, logs)
    of_base = [rate for size, rate in zip(sizes, rates, strict=True) if size == sizes[0]]
    base = None
    if len(set(sizes)) > 1 and all(rate.rate > 0 for rate in of_base):
        mean = sum(rate.log.value for rate in of_base) / len(of_base)
        base = rates[0] if len(of_base) == 1 else _Rate.without_error(math.exp(mean))
    for size, own, stated, file in zip(
        sizes, rates, ordered["stated_speedup"], ordered["file"], strict=True
    ):
        found = _compared(size, own, base, sizes[0])
        yield found | {"stated_speedup": float(stated), "file": file}


def _of_repeats(
    ordered: pd.DataFrame, logs: Mapping[str, LogEstimate]
) -> Iterator[dict[str, object]]:
    groups = [(int(str(size)), rows) for size, rows in ordered.groupby("np", sort=True)]
    by_size = [_rates(rows, logs) for _, rows in groups]
    values = [np.array([rate.log.value for rate in own]) for own in by_size]
    degrees = sum(len(own) - 1 for own in values)
    squares = sum(float(np.square(own - own.mean()).sum()) for own in values)
    pooled = squares / degrees if degrees else NAN
    rates = [_mean_of_repeats(own, pooled, degrees) if degrees else own[0] for own in by_size]
    base = rates[0] if len(groups) > 1 else None
    for (size, rows), own in zip(groups, rates, strict=True):
        found = _compared(size, own, base, groups[0][0])
        yield found | {"num_repeats": len(rows), "file": rows["file"].iloc[0]}


def _rates(rows: pd.DataFrame, logs: Mapping[str, LogEstimate]) -> list[_Rate]:
    return [_rate(row, logs) for row in rows.to_dict("records")]


def _rate(row: FrameRow, logs: Mapping[str, LogEstimate]) -> _Rate:
    rate, error = float(row["samples_per_s"]), float(row["error"])
    if str(row["file"]) in logs:
        return _Rate.of(logs[str(row["file"])])
    if not rate > 0 or math.isnan(error):
        return _Rate.without_error(rate)
    degrees = _MANY if is_missing(row["num_values"]) else int(row["num_values"]) - 1
    return _Rate(rate, LogEstimate(math.log(rate), error / rate, degrees))


def _mean_of_repeats(own: Sequence[_Rate], pooled: float, degrees: int) -> _Rate:
    within = [rate.log.error**2 for rate in own if not math.isnan(rate.log.error)]
    variance = max(pooled, sum(within) / len(within)) if within else pooled
    value = sum(rate.log.value for rate in own) / len(own)
    return _Rate.of(LogEstimate(value, math.sqrt(variance / len(own)), degrees, _POOL))


def _compared(size: int, own: _Rate, base: _Rate | None, base_np: int) -> dict[str, object]:
    """A row without series and file; the base has no intervals against itself."""
    within = own.log.interval()
    scale, speedup, low, high = (NAN,) * 4
    if base is not None:
        scale, speedup = size / base_np, own.rate / base.rate
    if base is not None and base is not own:
        found = difference(own.log, base.log).interval()
        low, high = found.low, found.high
    efficiency = speedup / scale
    return {
        "np": size,
        "samples_per_s": own.rate,
        "samples_per_s_low": within.low,
        "samples_per_s_high": within.high,
        "baseline_np": None if base is None else base_np,
        "speedup": speedup,
        "stated_speedup": NAN,
        "efficiency": efficiency,
        "efficiency_low": low / scale,
        "efficiency_high": high / scale,
        "speedup_low": low,
        "speedup_high": high,
        "karp_flatt": karp_flatt(efficiency, scale),
        # The fraction falls as the efficiency rises.
        "karp_flatt_low": karp_flatt(high / scale, scale),
        "karp_flatt_high": karp_flatt(low / scale, scale),
        "num_repeats": 1,
    }


_LARGEST_DIFFERENCE = 0.02
_ROUNDING = 0.051
"""Tables round speed-ups to a tenth or better."""


def contradicted_speedups(series: Iterable[pd.DataFrame]) -> str:
    """A sentence on stated speed-ups that differ from the throughputs; empty without any.

    Args:
        series: Rows of THROUGHPUT, one frame for each series.
    """
    contradicted: list[int] = []
    for rows in series:
        found = throughput_scaling(rows)
        # Speed-ups may be stated against another baseline, such as one rank of another table.
        stated, computed = found["stated_speedup"], found["speedup"]
        ours = stated[(found["np"] == found["baseline_np"]).fillna(False).to_numpy()]
        if ours.empty or abs(float(ours.iloc[0]) - 1) > _LARGEST_DIFFERENCE:
            continue
        apart = (stated - computed).abs() > (_LARGEST_DIFFERENCE * computed).clip(lower=_ROUNDING)
        contradicted += [int(size) for size in found.loc[apart.to_numpy(), "np"]]
    if not contradicted:
        return ""
    sizes = ", ".join(str(size) for size in sorted(set(contradicted)))
    number = units.counted(len(contradicted), "stated speed-up")
    return f"The throughputs contradict {number} (np={sizes}) by more than 2 %."


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
