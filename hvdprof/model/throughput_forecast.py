"""A finished forecast from throughputs alone; reports and figures only format it.

Tested in ``tests/analyze/predict/test_throughput_forecast.py``.
"""

from dataclasses import dataclass, field, replace

import pandas as pd

from hvdprof.model.file_page import FileVerdict
from hvdprof.model.forecast import DEFAULT_TARGET, Limits
from hvdprof.model.tables.forecast_tables import QUANTILES, THROUGHPUT_FORECAST


@dataclass(frozen=True, slots=True)
class NextSize:
    """The number of ranks of a series whose measurement narrows the band most per rank.

    ``band_before`` and ``band_after`` are widths of the 90 % band of the efficiency at
    ``target_np`` ranks, now and as expected after the measurement.
    """

    series: str
    np: int
    target_np: int
    band_before: float
    band_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputForecast:
    """A forecast of every series of a table.

    Attributes:
        rows: THROUGHPUT_FORECAST.
        measured: THROUGHPUT_SCALING of the table.
        limits: Knee and largest number of ranks at the target, one per series, which is its
            ``scenario``.
        next_sizes: What to measure next, at most one per series.
        verdicts: At most two sentences and a caveat per series.
        target: Efficiency of the largest useful number of ranks.
        seed: Seed of the draws.
        notes: What was left out of the table, or not predicted.
    """

    rows: pd.DataFrame = field(default_factory=THROUGHPUT_FORECAST.empty)
    measured: pd.DataFrame
    limits: tuple[Limits, ...] = ()
    next_sizes: tuple[NextSize, ...] = ()
    verdicts: tuple[FileVerdict, ...] = ()
    target: float = DEFAULT_TARGET
    seed: int
    notes: tuple[str, ...] = ()

    def without_rates(self) -> "ThroughputForecast":
        """The same of numbers that were not samples/s, such as speed-ups: they compare sizes."""
        unknown = {f"samples_per_s_{short}": float("nan") for short in QUANTILES}
        return replace(
            self,
            rows=self.rows.assign(**unknown),
            measured=self.measured.assign(samples_per_s=float("nan")),
        )
