"""The forecast of a run or a model, to be written in every format.

Tested in ``tests/report/forecast/test_forecast_page.py``.
"""

from functools import partial

from hvdprof.model.results.forecast import Forecast
from hvdprof.report.answer import Answer
from hvdprof.report.forecast.forecast_json import forecast_object, render_forecast_csv
from hvdprof.report.forecast.forecast_page import terminal_sections
from hvdprof.report.sections.section import Page


def forecast_answer(forecast: Forecast, *, run: str = "RUN", price: float | None = None) -> Answer:
    """A finished forecast.

    Args:
        forecast: The forecast.
        run: The run directory in commands.
        price: Price of one rank for an hour, which adds what samples cost; in any currency.
    """
    return Answer(
        lambda: Page(terminal_sections(forecast, run, price)),
        partial(forecast_object, forecast, run=run, price=price),
        {"csv": partial(render_forecast_csv, forecast, price=price)},
    )
