"""Earlier forecasts held against later measurements, and the conformal factors that follow.

With n absolute log errors of one group of extrapolation, a new one lies below the
``ceil((n + 1) * level)``-th smallest with probability ``level``, if it is exchangeable with them
(V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005). 90 % needs 9.
Errors on other machines are not exchangeable: the factors say how wrong forecasts were so far.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Float64s, FrameRow, is_missing
from hvdprof.model.results.forecast import Forecast, StoredForecast
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.forecast_tables import FORECAST_ERRORS, FORECAST_SCORES

GROUPS: tuple[tuple[str, float, float], ...] = (
    ("up to x2", 1.0, 2.0),
    ("up to x4", 2.0, 4.0),
    ("beyond x4", 4.0, math.inf),
)
"""Name, and the extrapolation above which and up to which a group reaches."""

_CELL = ("model", "np", "engine", "compression", "reduction")
_SAME_BATCH = 0.01


@dataclass(frozen=True, slots=True)
class Predicted:
    """A run directory by its name, with the forecasts that it holds."""

    run: str
    forecasts: tuple[StoredForecast, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A run by the name of its directory: SCALING, and the number of hosts of each size."""

    run: str
    scaling: pd.DataFrame
    num_hosts: dict[int, int]


def measured_of(analysis: RunAnalysis) -> Measured:
    """What a run measured, for ``forecast_scores``."""
    run = analysis.run
    sizes = {record.id: record.size for record in run.manifest.passes}
    hosts: dict[int, int] = {}
    for pass_id, ranks in run.ranks.groupby("pass_id", observed=True):
        hosts[sizes[str(pass_id)]] = int(ranks["hostname"].nunique())
    return Measured(run.shown_name, analysis.scaling, hosts)


def forecast_scores(predicted: Sequence[Predicted], measured: Sequence[Measured]) -> pd.DataFrame:
    """FORECAST_SCORES: every predicted size that a run measured.

    Sizes that the fit of the forecast used do not count, nor sizes with more ranks than cores.
    """
    rows = [
        _score(folder.run, stored, row, run, cell)
        for folder in predicted
        for stored in folder.forecasts
        for row in stored.forecast.rows.to_dict("records")
        for run in measured
        for cell in _cells_like(row, stored.forecast, run)
    ]
    scores = FORECAST_SCORES.frame(rows)
    # A forecast that is asked for again is no second proof.
    again = scores.duplicated(["predicted_by", "measured_by", "scenario", *_CELL])
    return scores.assign(is_counted=scores["is_counted"] & ~again)


def forecast_errors(scores: pd.DataFrame) -> pd.DataFrame:
    """FORECAST_ERRORS: the counted scores by extrapolation, one row per group that has some."""
    counted = scores[scores["is_counted"].to_numpy(dtype=bool)]
    rows: list[dict[str, object]] = []
    for name, above, up_to in GROUPS:
        group = counted[(counted["extrapolation"] > above) & (counted["extrapolation"] <= up_to)]
        if group.empty:
            continue
        errors = group["log_error"].to_numpy(dtype=np.float64)
        is_open = group["is_open"].to_numpy(dtype=bool)
        in_90 = group["in_90"].to_numpy(dtype=bool)
        rows.append(
            {
                "extrapolation": name,
                "num_scores": len(group),
                "median_error": float(np.median(np.abs(np.expm1(errors)))),
                "bias": float(np.expm1(errors).mean()),
                "in_50": float(group["in_50"].mean()),
                "in_90": float(in_90[~is_open].mean()) if not is_open.all() else NAN,
                "num_open": int(is_open.sum()),
                "open_in_95": float(in_90[is_open].mean()) if is_open.any() else NAN,
                "factor_50": conformal_factor(errors, 0.5),
                "factor_90": conformal_factor(errors, 0.9),
            }
        )
    return FORECAST_ERRORS.frame(rows)


def conformal_factor(log_errors: Float64s, level: float) -> float:
    """The factor within which a share ``level`` of new errors lies; NaN for too few errors."""
    # Without the rounding, 10 * 0.9 would need a tenth error.
    place = math.ceil(round((len(log_errors) + 1) * level, 9))
    if place > len(log_errors):
        return NAN
    return math.exp(float(np.sort(np.abs(log_errors))[place - 1]))


def past_errors(scores: pd.DataFrame) -> tuple[tuple[float, float], ...]:
    """Extrapolation and log error of each counted score, as ``Question.past_errors`` takes them."""
    counted = scores[scores["is_counted"].to_numpy(dtype=bool)]
    return tuple(
        (float(ratio), float(error))
        for ratio, error in zip(counted["extrapolation"], counted["log_error"], strict=True)
    )


def _cells_like(row: FrameRow, forecast: Forecast, run: Measured) -> Iterator[FrameRow]:
    if row["np"] in forecast.measured_np:
        return
    if run.num_hosts.get(int(row["np"]), int(row["num_hosts"])) != int(row["num_hosts"]):
        return
    for cell in run.scaling.to_dict("records"):
        is_same = all(cell[name] == row[name] for name in _CELL) and not cell["oversubscribed"]
        if is_missing(cell["batch_size"]):
            continue
        if is_same and abs(cell["batch_size"] / row["batch_size"] - 1) <= _SAME_BATCH:
            yield cell


def _score(
    run: str, stored: StoredForecast, row: FrameRow, measured: Measured, cell: FrameRow
) -> dict[str, object]:
    rate, median = float(cell["samples_per_s"]), float(row["samples_per_s_p50"])
    forecast = stored.forecast
    return {
        **{name: row[name] for name in (*_CELL, "scenario", "extrapolation")},
        "predicted_by": run,
        "forecast": stored.name,
        "measured_by": measured.run,
        "predicted_samples_per_s": median,
        "measured_samples_per_s": rate,
        "log_error": math.log(median / rate),
        "in_50": _within(rate, row, "p25", "p75"),
        "in_90": _within(rate, row, "p5", "p95"),
        "is_open": math.isnan(float(row["samples_per_s_p5"])),
        "is_counted": len(forecast.scenarios) == 1 and not forecast.question.what_if,
    }


def _within(rate: float, row: FrameRow, low: str, high: str) -> bool:
    """Whether a throughput lies in a band; an open end reaches to 0."""
    lowest = float(row[f"samples_per_s_{low}"])
    return (math.isnan(lowest) or rate >= lowest) and rate <= float(row[f"samples_per_s_{high}"])
