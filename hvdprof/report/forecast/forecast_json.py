"""A forecast as one JSON object and as CSV, with what it costs at a price per rank-hour."""

import dataclasses
from typing import IO

import pandas as pd

from hvdprof.model.results.forecast import Forecast
from hvdprof.model.tables.forecast_tables import QUANTILES
from hvdprof.report.forecast.forecast_texts import caveat_of, next_step_of, reach_of, verdict_of
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json

FORECAST_SCHEMA_VERSION = 1


def forecast_object(
    forecast: Forecast, *, run: str = "RUN", price: float | None = None
) -> JsonObject:
    """The forecast as plain values; docs/howto/predict.md lists its keys.

    Args:
        forecast: A finished forecast.
        run: The run directory in commands.
        price: Price of one rank for an hour; adds ``cost``.
    """
    text, command = next_step_of(forecast, run)
    cost: JsonObject = {}
    if price is not None:
        cost["price_per_rank_hour"] = price
        cost["cost"] = json_rows(samples_per_currency(forecast.rows, price))
    return {
        "schema_version": FORECAST_SCHEMA_VERSION,
        "verdict": [verdict_of(forecast), reach_of(forecast)],
        "caveat": caveat_of(forecast),
        "next": {"sentence": text, "command": command},
        "question": json_value(dataclasses.asdict(forecast.question)),
        "baseline": forecast.baseline,
        "baseline_samples_per_s": json_value(forecast.baseline_samples_per_s),
        "measured_np": list(forecast.measured_np),
        "excluded_np": list(forecast.excluded_np),
        "algorithm": forecast.algorithm,
        "algorithm_probability": json_value(forecast.algorithm_probability),
        "tail_index": json_value(forecast.tail_index),
        "scenarios": list(forecast.scenarios),
        "forecast": json_rows(forecast.rows),
        "forecast_causes": json_rows(forecast.causes),
        "forecast_widths": json_rows(forecast.widths),
        "forecast_measure": json_rows(forecast.measurements),
        "limits": [json_value(dataclasses.asdict(limit)) for limit in forecast.limits],
        "assumptions": list(forecast.assumptions),
        "missing": [json_value(dataclasses.asdict(gap)) for gap in forecast.missing],
        "caveats": [json_value(dataclasses.asdict(note)) for note in forecast.caveats],
        **cost,
    }


def write_forecast(forecast: Forecast, stream: IO[str], *, created_at: str, version: str) -> None:
    """Write what a run directory keeps: the object with its time and hvdprof's version.

    ``ingest.rundir.forecast_file`` reads it.
    """
    origin: JsonObject = {"created_at": created_at, "hvdprof_version": version}
    write_json(origin | forecast_object(forecast), stream)


def render_forecast_csv(forecast: Forecast, stream: IO[str], *, price: float | None = None) -> None:
    """Write the rows of FORECAST with all digits; a price adds the columns of the cost."""
    rows = forecast.rows
    if price is not None:
        costs = samples_per_currency(rows, price)
        rows = rows.assign(**{name: costs[name] for name in costs.columns if name not in rows})
    rows.to_csv(stream, index=False, lineterminator="\n")


def samples_per_currency(rows: pd.DataFrame, price_per_rank_hour: float) -> pd.DataFrame:
    """Columns scenario, np and ``samples_per_currency_p5`` to ``_p95``: throughput by its price.

    Args:
        rows: FORECAST.
        price_per_rank_hour: In any currency.
    """
    price_per_s = rows["np"] * price_per_rank_hour / 3600
    return pd.DataFrame(
        {
            "scenario": rows["scenario"],
            "np": rows["np"],
            **{
                f"samples_per_currency_{short}": rows[f"samples_per_s_{short}"] / price_per_s
                for short in QUANTILES
            },
        }
    )
