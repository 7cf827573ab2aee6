"""Forecasts held against later measurements, in a terminal, as JSON and as CSV.

Tested in ``tests/report/forecast/test_score_report.py``.
"""

import math
from collections.abc import Callable, Sequence
from typing import IO

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.frame_row import FrameRow
from hvdprof.report.forecast.forecast_texts import network_name
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import json_rows, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.band_cells import frame_of
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict

SCORE_SCHEMA_VERSION = 1
_TITLE = "bold cyan"


def render_scores(
    scores: pd.DataFrame,
    errors: pd.DataFrame,
    notes: Sequence[str],
    stream: IO[str],
    *,
    width: int | None = None,
) -> None:
    """Write a verdict, a line per predicted size that was measured, and the errors so far.

    Args:
        scores: FORECAST_SCORES.
        errors: FORECAST_ERRORS.
        notes: What was left out.
        stream: Where to write.
        width: Columns of the console; those of the terminal when not given.
    """
    console = report_console(stream, width)
    print_verdict(console, "", score_verdict(scores), _caveat(scores, errors))
    if len(scores):
        console.print(Text("\nPredicted and measured", style=_TITLE))
        console.print(_scores(scores))
    if len(errors):
        console.print(Text("\nErrors so far by extrapolation", style=_TITLE))
        console.print(_errors(errors))
    for note in notes:
        print_hanging(console, "  ! ", note)


def render_scores_json(
    scores: pd.DataFrame, errors: pd.DataFrame, notes: Sequence[str], stream: IO[str]
) -> None:
    """Write one indented object and a newline; docs/howto/predict.md lists its keys."""
    write_json(
        {
            "schema_version": SCORE_SCHEMA_VERSION,
            "verdict": score_verdict(scores),
            "forecast_scores": json_rows(scores),
            "forecast_errors": json_rows(errors),
            "notes": list(notes),
        },
        stream,
    )


def render_scores_csv(
    scores: pd.DataFrame, errors: pd.DataFrame, notes: Sequence[str], stream: IO[str]
) -> None:
    """Write the rows of FORECAST_SCORES, all digits kept."""
    scores.to_csv(stream, index=False, lineterminator="\n")


RENDERERS: dict[Format, Callable[[pd.DataFrame, pd.DataFrame, Sequence[str], IO[str]], None]] = {
    Format.TERMINAL: render_scores,
    Format.JSON: render_scores_json,
    Format.CSV: render_scores_csv,
}
"""What writes scores to a text stream."""


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


def _scores(scores: pd.DataFrame) -> Table:
    heads = ["np", "samples/s\npredicted\nmeasured", "step longer\nthan predicted", "band"]
    table = frame_of(heads)
    table.add_column("forecast of, network\nmeasured by", overflow="fold")
    for row in scores.to_dict("records"):
        band = "50 %" if row["in_50"] else "90 %" if row["in_90"] else "outside"
        band = f"{band}, open" if row["is_open"] else band
        table.add_row(
            units.count(row["np"]),
            f"{units.rate(row['predicted_samples_per_s'])}\n"
            f"{units.rate(row['measured_samples_per_s'])}",
            _error(math.expm1(row["log_error"])),
            band if row["is_counted"] else f"{band}\nnot counted",
            f"{row['predicted_by']}, {network_name(str(row['scenario']))}\n{row['measured_by']}",
        )
    return table


def _errors(errors: pd.DataFrame) -> Table:
    """Groups as columns: there are more measures than groups."""
    rows = errors.to_dict("records")
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    table.add_column("")
    for row in rows:
        table.add_column(str(row["extrapolation"]), justify="right", no_wrap=True)
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
    for name, cell in lines.items():
        table.add_row(name, *map(cell, rows))
    return table


def _error(share: float) -> str:
    return f"{100 * share:+z.1f} %"


def _share(value: float) -> str:
    return units.MISSING if math.isnan(value) else units.percent(value, 0)


def _factor(value: float) -> str:
    return units.MISSING if math.isnan(value) else f"x/÷ {value:.3f}"
