"""A forecast that was kept beside the run that it was made from.

Tested in ``tests/ingest/rundir/test_forecast_file.py``.
"""

from dataclasses import dataclass

from hvdprof.model.forecast import Forecast


@dataclass(frozen=True, slots=True)
class StoredForecast:
    """A forecast with the name of its file and the time at which it was made (ISO 8601, UTC)."""

    name: str
    created_at: str
    forecast: Forecast
