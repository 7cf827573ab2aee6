"""A forecast, and forecasts held against later measurements: sections, JSON and CSV."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.results.forecast import Forecast
from hvdprof.report.answer import Answer, rows_csv
from hvdprof.report.json_values import JsonObject, json_rows
from hvdprof.report.sections.forecast_page import (
    forecast_object,
    render_forecast_csv,
    terminal_sections,
)
from hvdprof.report.sections.forecast_texts import network_name
from hvdprof.report.sections.section import Head, Page, Section

SCORE_SCHEMA_VERSION = 1


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


def score_answer(scores: pd.DataFrame, errors: pd.DataFrame, notes: Sequence[str]) -> Answer:
    """A verdict, a row per predicted size that was measured, and the errors so far.

    Args:
        scores: FORECAST_SCORES, whose rows are the CSV.
        errors: FORECAST_ERRORS.
        notes: What was left out.
    """
    given = (scores, errors, notes)
    return Answer(partial(_page, *given), partial(_object, *given), rows_csv(scores))


def _page(scores: pd.DataFrame, errors: pd.DataFrame, notes: Sequence[str]) -> Page:
    sections = [Section(verdict=score_verdict(scores), caveat=_caveat(scores, errors))]
    sections += [_scores(scores)] if len(scores) else []
    sections += [_errors(errors)] if len(errors) else []
    return Page(tuple(sections), notes=tuple(notes))


def _object(scores: pd.DataFrame, errors: pd.DataFrame, notes: Sequence[str]) -> JsonObject:
    """The keys are listed in docs/howto/predict.md."""
    return {
        "schema_version": SCORE_SCHEMA_VERSION,
        "verdict": score_verdict(scores),
        "forecast_scores": json_rows(scores),
        "forecast_errors": json_rows(errors),
        "notes": list(notes),
    }


def score_verdict(scores: pd.DataFrame) -> str:
    """How many measurements of counted scores the 90 % bands contain, and the median error.

    An error is that of the step time, relative to the predicted one, as in ``_scores``.
    """
    if scores.empty:
        return "No predicted size was measured yet."
    counted = scores[scores["is_counted"].to_numpy(dtype=bool)]
    if counted.empty:
        measured = len(scores.drop_duplicates(["measured_by", *CELL_KEY]))
        return f"{units.counted(measured, 'measurement')}, but no forecast of them counts."
    is_open, held = (counted[name].to_numpy(dtype=bool) for name in ("is_open", "in_90"))
    error = float(np.expm1(counted["log_error"]).abs().median())
    number = units.counted(int((~is_open).sum()), "measurement")
    parts = [f"{int(held[~is_open].sum())} of {number} within the 90 % band"]
    if is_open.any():
        number = units.counted(int(is_open.sum()), "measurement")
        below = f"{int(held[is_open].sum())} of {number} below the upper end of an open band"
        parts = [below] if is_open.all() else [*parts, below]
    return f"{', '.join(parts)}, median error of the step time {units.percent(error)}."


def _caveat(scores: pd.DataFrame, errors: pd.DataFrame) -> str:
    if scores.empty:
        return "Measure a predicted size of the same model, engine and batch, on as many hosts."
    left_out = int((~scores["is_counted"]).sum())
    parts = []
    if left_out:
        parts.append(
            f"{units.counted(left_out, 'score')} not counted: several possible networks, an "
            "assumed change of the job, or a repeated forecast."
        )
    if len(errors) and errors["factor_90"].isna().any():
        parts.append("A 90 % factor requires 9 scores.")
    if len(errors):
        parts.append("Other machines and jobs may differ.")
    return " ".join(parts)


def _scores(scores: pd.DataFrame) -> Section:
    heads = ("np", "samples/s\npredicted\nmeasured", "step longer\nthan predicted", "band")
    rows = []
    for row in scores.to_dict("records"):
        band = "50 %" if row["in_50"] else "90 %" if row["in_90"] else "outside"
        band = f"{band}, open" if row["is_open"] else band
        cells = (
            units.count(row["np"]),
            f"{units.rate(row['predicted_samples_per_s'])}\n"
            f"{units.rate(row['measured_samples_per_s'])}",
            _error(math.expm1(row["log_error"])),
            band if row["is_counted"] else f"{band}\nnot counted",
            f"{row['predicted_by']}, {network_name(str(row['scenario']))}\n{row['measured_by']}",
        )
        rows.append(cells)
    of = Head("forecast of, network\nmeasured by", is_text=True)
    return Section("Predicted and measured", heads=(*map(Head, heads), of), rows=tuple(rows))


def _errors(errors: pd.DataFrame) -> Section:
    """Groups as columns: there are more measures than groups."""
    rows = errors.to_dict("records")
    lines: dict[str, Callable[[FrameRow], str]] = {
        "scores": lambda row: units.count(row["num_scores"]),
        "median error of the step time": lambda row: units.percent(row["median_error"]),
        "mean error; above 0: slower": lambda row: _error(row["bias"]),
        "in the 50 % band": lambda row: units.percent(row["in_50"], 0),
        "in the 90 % band": lambda row: _share(row["in_90"]),
        "90 % bands without a lower end": lambda row: units.count(row["num_open"]),
        "below the upper end of these": lambda row: _share(row["open_in_95"]),
        "factor that holds 50 %": lambda row: _factor(row["factor_50"]),
        "factor that holds 90 %": lambda row: _factor(row["factor_90"]),
    }
    return Section(
        "Errors so far by extrapolation",
        heads=(Head("", is_text=True), *(Head(str(row["extrapolation"])) for row in rows)),
        rows=tuple((name, *map(cell, rows)) for name, cell in lines.items()),
    )


def _error(share: float) -> str:
    return f"{100 * share:+z.1f} %"


def _share(value: float) -> str:
    return units.MISSING if math.isnan(value) else units.percent(value, 0)


def _factor(value: float) -> str:
    return units.MISSING if math.isnan(value) else f"x/÷ {value:.3f}"
