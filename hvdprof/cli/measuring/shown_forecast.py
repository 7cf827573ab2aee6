"""What writes a forecast to a text stream, as ``scaling --np`` and ``predict`` show it.

Tested in ``tests/cli/test_predict.py``.
"""

from typing import TYPE_CHECKING

from hvdprof.cli.measuring.written_output import Render
from hvdprof.report.format_names import Format

if TYPE_CHECKING:
    from hvdprof.api.prediction import Forecast, ThroughputForecast


def throughput_forecast_renderer(forecast: "ThroughputForecast", format_: Format) -> Render:
    """What writes a forecast from throughputs alone."""
    from hvdprof.report.terminal import throughput_forecast_report as report

    render = {
        Format.JSON: report.render_throughput_forecast_json,
        Format.CSV: report.render_throughput_forecast_csv,
    }.get(format_, report.render_throughput_forecast)
    return lambda stream: render(forecast, stream)


def forecast_renderer(
    forecast: "Forecast", format_: Format, *, run: str = "RUN", price: float | None = None
) -> Render:
    """What writes the forecast of a run or a model.

    Args:
        forecast: A finished forecast.
        format_: Terminal, JSON or CSV.
        run: The run directory in commands.
        price: Price of one rank for an hour.
    """
    from hvdprof.report.forecast.forecast_json import render_forecast_csv, render_forecast_json
    from hvdprof.report.forecast.forecast_terminal import render_forecast

    if format_ is Format.JSON:
        return lambda stream: render_forecast_json(forecast, stream, run=run, price=price)
    if format_ is Format.CSV:
        return lambda stream: render_forecast_csv(forecast, stream, price=price)
    return lambda stream: render_forecast(forecast, stream, run=run, price=price)
