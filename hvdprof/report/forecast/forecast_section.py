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
    NO_CAUSE,
    caveat_of,
    efficiency_band,
    knee_sentences,
    limited_by,
    next_step_of,
    reach_of,
    verdict_of,
)
from hvdprof.report.forecast.joined_networks import band_50, efficiencies_of, network_rows, rates_of

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
    sentences += knee_sentences(forecast.limits)
    sentences += [f"Next: {text}"] if text else []
    return ForecastPart(
        forecast.model,
        tuple(filter(None, sentences)),
        command,
        tuple(_row(networks, rows) for networks, rows in network_rows(forecast)),
        forecast.assumptions,
    )


def _row(networks: str, rows: list[FrameRow]) -> tuple[str, ...]:
    medians, ends = efficiencies_of(rows)
    return (
        units.count(rows[0]["np"]),
        networks,
        efficiency_band(rows[0]) if len(rows) == 1 else f"{medians} % (90 % band {ends})",
        band_50(rows),
        rates_of(rows),
        limited_by(rows[0]) or NO_CAUSE,
    )
