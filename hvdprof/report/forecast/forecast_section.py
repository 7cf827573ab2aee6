"""The latest stored forecast of each model of a run, as texts for reports.

Tested in ``tests/report/forecast/test_forecast_section.py``.
"""

import shlex
from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.forecast import Forecast
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import RunAnalysis
from hvdprof.report.forecast.forecast_texts import (
    caveat_of,
    knee_of,
    limited_by,
    network_name,
    next_step_of,
    reach_of,
    verdict_of,
)

FORECAST_HEADS = ("np", "network", "efficiency", "50 % band", "samples/s", "limited by")


@dataclass(frozen=True, slots=True)
class ForecastPart:
    """A forecast as sentences, the command of the next measurement, a table, and assumptions."""

    model: str
    sentences: tuple[str, ...]
    command: str
    rows: tuple[tuple[str, ...], ...]
    assumptions: tuple[str, ...]


def shape_forecasts(analysis: RunAnalysis) -> tuple[ForecastPart, ...]:
    """The latest forecast of every model, in the order of the models' first forecasts."""
    latest = {forecast.forecast.model: forecast.forecast for forecast in analysis.run.forecasts}
    run = shlex.quote(str(analysis.run.folder))
    return tuple(_part(forecast, run) for forecast in latest.values())


def _part(forecast: Forecast, run: str) -> ForecastPart:
    text, command = next_step_of(forecast, run)
    caveat = caveat_of(forecast)
    sentences = [verdict_of(forecast), reach_of(forecast)]
    sentences += [f"Caveat: {caveat}"] if caveat else []
    several = len(forecast.limits) > 1
    sentences += [
        f"Over {network_name(limit.scenario)}: {knee_of(limit)}" if several else knee_of(limit)
        for limit in forecast.limits
    ]
    sentences += [f"Next: {text}"] if text else []
    ordered = forecast.rows.sort_values(["scenario", "np"], kind="stable").to_dict("records")
    return ForecastPart(
        forecast.model,
        tuple(filter(None, sentences)),
        command,
        tuple(map(_row, ordered)),
        forecast.assumptions,
    )


def _row(row: FrameRow) -> tuple[str, ...]:
    return (
        units.count(row["np"]),
        network_name(str(row["scenario"])),
        units.percent_band(*(row[f"efficiency_{q}"] for q in ("p50", "p5", "p95"))),
        f"{100 * row['efficiency_p25']:.0f} to {100 * row['efficiency_p75']:.0f} %",
        units.rate(row["samples_per_s_p50"]),
        limited_by(row) or "no single cause",
    )
