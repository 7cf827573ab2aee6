"""A forecast on standard output, as ``scaling --np`` and ``predict`` print it.

Tested in ``tests/cli/test_scaling.py``.
"""

import sys
from typing import TYPE_CHECKING

from hvdprof.report.format_names import Format

if TYPE_CHECKING:
    from hvdprof.api.prediction import ThroughputForecast


def show_throughput_forecast(forecast: "ThroughputForecast", format_: Format) -> None:
    """Print a forecast from throughputs alone."""
    from hvdprof.report.terminal import throughput_forecast_report as report

    render = {
        Format.JSON: report.render_throughput_forecast_json,
        Format.CSV: report.render_throughput_forecast_csv,
    }.get(format_, report.render_throughput_forecast)
    render(forecast, sys.stdout)
