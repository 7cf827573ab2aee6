"""A forecast of the series of a table of throughputs: bands, limits, and what to measure next."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.predict.empirical import (
    EmpiricalFit,
    MeasuredRates,
    fit_empirical,
    with_measurement_error,
)
from hvdprof.analyze.predict.forecast_rows import drawn_limits
from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling
from hvdprof.model.arrays import Float64s
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.results.forecast import (
    DEFAULT_SEED,
    DEFAULT_TARGET,
    Limits,
    NextSize,
    ThroughputForecast,
    efficiency_sentence,
    limit_sentence,
)
from hvdprof.model.tables.forecast_tables import QUANTILES, THROUGHPUT_FORECAST

_NUM_DRAWS = 20_000
_DEFAULT_DOUBLINGS = 3
_SMALLEST_GAIN = 0.05
"""A measurement that narrows the band by less than a twentieth is not worth its ranks."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Curves:
    """Draws of one series: ``efficiencies`` [draws, sizes], and those that a measurement shows."""

    series: str
    measured: MeasuredRates
    fit: EmpiricalFit
    sizes: tuple[int, ...]
    efficiencies: Float64s
    seen: Float64s

    @property
    def largest(self) -> int:
        return self.measured.sizes[-1]

    def column(self, size: int) -> Float64s:
        return self.seen[:, self.sizes.index(size)]


def throughput_forecast(
    throughput: pd.DataFrame,
    sizes: Sequence[int],
    *,
    strong: bool = False,
    target: float = DEFAULT_TARGET,
    seed: int = DEFAULT_SEED,
    notes: Sequence[str] = (),
) -> ThroughputForecast:
    """The forecast of every series that has two measured sizes.

    Args:
        throughput: Rows of THROUGHPUT; rows of one series and size are repeats.
        sizes: Numbers of ranks; empty for three doublings of the largest measured one.
        strong: All ranks share one batch.
        target: Efficiency of the largest useful number of ranks.
        seed: Seed of the draws.
        notes: Notes on the table that come first among those of the forecast.
    """
    rows: list[dict[str, object]] = []
    limits: list[Limits] = []
    next_sizes: list[NextSize] = []
    verdicts: list[FileVerdict] = []
    said = list(notes)
    for name, members in throughput.groupby("series", observed=True, sort=False):
        series, measured = str(name), _measured(members)
        lead = f"{series}: " if series else ""
        if len(measured.sizes) < 2:
            said.append(f"{lead}one number of ranks alone; a forecast requires two.")
            continue
        wanted, note = _sizes_beyond(measured, sizes)
        if note:
            said.append(lead + note)
        if not wanted:
            continue
        curves = _curves(series, measured, wanted, strong=strong, seed=seed)
        own_rows = [_row(curves, size, target) for size in wanted]
        own_limits = drawn_limits(
            curves.series, curves.sizes, curves.efficiencies, target, curves.largest
        )
        following = _next_size(curves, wanted[-1])
        rows += own_rows
        limits.append(own_limits)
        next_sizes += [following] if following else []
        verdicts.append(_verdict(lead, own_rows[-1], own_limits, target))
    return ThroughputForecast(
        rows=THROUGHPUT_FORECAST.frame(rows),
        measured=throughput_scaling(throughput, repeats=True),
        limits=tuple(limits),
        next_sizes=tuple(next_sizes),
        verdicts=tuple(verdicts),
        target=target,
        seed=seed,
        notes=tuple(said),
    )


def _measured(members: pd.DataFrame) -> MeasuredRates:
    valid = members[members["samples_per_s"] > 0]
    groups = [(int(str(size)), rows) for size, rows in valid.groupby("np", sort=True)]
    return MeasuredRates(
        tuple(size for size, _ in groups),
        tuple(tuple(float(rate) for rate in rows["samples_per_s"]) for _, rows in groups),
    )


def _sizes_beyond(measured: MeasuredRates, sizes: Sequence[int]) -> tuple[list[int], str]:
    """The sizes to predict, and a note on those that are measured or below."""
    largest = measured.sizes[-1]
    if not sizes:
        return [largest << doubling for doubling in range(1, _DEFAULT_DOUBLINGS + 1)], ""
    wanted = sorted({size for size in sizes if size > largest})
    known = sorted(set(sizes) - set(wanted))
    if not known:
        return wanted, ""
    texts = ", ".join(str(size) for size in known)
    return wanted, f"np={texts} not predicted: np={largest} is measured."


def _curves(
    series: str, measured: MeasuredRates, wanted: Sequence[int], *, strong: bool, seed: int
) -> _Curves:
    rng = np.random.default_rng(seed)
    fit = fit_empirical(measured, strong=strong)
    between = _doublings(measured.sizes[-1], wanted[-1])
    sizes = tuple(sorted({*measured.sizes, *between, *wanted}))
    times = fit.draws(sizes, _NUM_DRAWS, rng)
    base = math.exp(float(measured.log_rank_times()[0]))
    return _Curves(
        series,
        measured,
        fit,
        sizes,
        base / times,
        base / with_measurement_error(times, fit.error, rng),
    )


def _doublings(largest: int, last: int) -> Iterator[int]:
    size = 2 * largest
    while size < last:
        yield size
        size *= 2


def _row(curves: _Curves, size: int, target: float) -> dict[str, object]:
    efficiencies = curves.column(size)
    base_rate = math.exp(float(np.mean(np.log(curves.measured.rates[0]))))
    base_np = curves.measured.sizes[0]
    row: dict[str, object] = {
        "series": curves.series,
        "np": size,
        "baseline_np": base_np,
        "extrapolation": size / curves.largest,
        "meets_target": float(np.mean(efficiencies >= target)),
    }
    values = np.quantile(efficiencies, list(QUANTILES.values()))
    for short, value in zip(QUANTILES, values, strict=True):
        row[f"efficiency_{short}"] = float(value)
        row[f"samples_per_s_{short}"] = float(value) * base_rate * size / base_np
    return row


def _next_size(curves: _Curves, last: int) -> NextSize | None:
    """The size between that narrows the band at the last one most per rank.

    A measurement explains the share of the variance of the last efficiency that a linear
    regression on the measured one explains, both as logarithms.
    """
    ends = np.quantile(curves.column(last), [QUANTILES["p5"], QUANTILES["p95"]])
    before = float(ends[1] - ends[0])
    wanted = np.log(curves.efficiencies[:, curves.sizes.index(last)])
    found = []
    for size in _doublings(curves.largest, last):
        correlation = float(np.corrcoef(np.log(curves.column(size)), wanted)[0, 1])
        after = before * math.sqrt(max(1 - correlation**2, 0.0))
        found.append(NextSize(curves.series, size, last, before, after))
    worth = [choice for choice in found if choice.band_after < (1 - _SMALLEST_GAIN) * before]
    return max(worth, key=lambda choice: (before - choice.band_after) / choice.np, default=None)


def _verdict(lead: str, last: dict[str, object], limits: Limits, target: float) -> FileVerdict:
    median, low, high = (float(str(last[f"efficiency_{end}"])) for end in ("p50", "p5", "p95"))
    size = units.count(int(str(last["np"])))
    known = efficiency_sentence(median, low, high, f"{size} ranks")
    sentence = f"{lead}{known} {limit_sentence(limits, target)}"
    caveat = (
        f"Extrapolated to {float(str(last['extrapolation'])):.3g} times the largest "
        "measured size, by throughputs alone. Networks, hosts and settings that the table does "
        "not contain are not part of it."
    )
    return FileVerdict(sentence, caveat)
