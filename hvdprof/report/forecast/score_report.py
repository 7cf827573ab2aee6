"""Forecasts held against later measurements, in a terminal, as JSON and as CSV.

Tested in ``tests/report/forecast/test_score_report.py``.
"""

import math
from collections.abc import Callable, Sequence
from typing import IO

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import json_rows, write_json
from hvdprof.report.plain_console import report_console
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
    """How many measurements the 90 % bands contain, and the median error."""
    if scores.empty:
        return "No predicted size was measured yet."
    is_open, held = (scores[name].to_numpy(dtype=bool) for name in ("is_open", "in_90"))
    error = math.expm1(float(scores["log_error"].abs().median()))
    number = units.counted(int((~is_open).sum()), "measurement")
    parts = [f"{int(held[~is_open].sum())} of {number} within the 90 % band"]
    if is_open.any():
        number = units.counted(int(is_open.sum()), "measurement")
        below = f"{int(held[is_open].sum())} of {number} below the upper end of an open band"
        parts = [below] if is_open.all() else [*parts, below]
    return f"{', '.join(parts)}, median error {units.percent(error)}."


def _caveat(scores: pd.DataFrame, errors: pd.DataFrame) -> str:
    if scores.empty:
        return "Measure a predicted size of the same model, engine and batch, on as many hosts."
    left_out = int((~scores["is_counted"]).sum())
    parts = []
    if left_out:
        parts.append(
            f"{units.counted(left_out, 'score')} not counted: several possible networks, changed "
            "settings, or a repeated forecast."
        )
    if len(errors) and errors["factor_90"].isna().any():
        parts.append("A 90 % factor requires 9 scores.")
    if len(errors):
        parts.append("Other machines and jobs may differ.")
    return " ".join(parts)


def _scores(scores: pd.DataFrame) -> Table:
    table = _frame(["np", "predicted\nsamples/s", "measured\nsamples/s", "slower than\npredicted"])
    for head in ("band", "network", "forecast", "measured by"):
        table.add_column(head, overflow="fold")
    for row in scores.to_dict("records"):
        band = "50 %" if row["in_50"] else "90 %" if row["in_90"] else "outside"
        band = f"{band}, open" if row["is_open"] else band
        table.add_row(
            units.count(row["np"]),
            units.rate(row["predicted_samples_per_s"]),
            units.rate(row["measured_samples_per_s"]),
            f"{100 * math.expm1(row['log_error']):+z.1f} %",
            band,
            str(row["scenario"]),
            f"{row['predicted_by']}",
            str(row["measured_by"]),
        )
    return table


def _errors(errors: pd.DataFrame) -> Table:
    heads = ("extrapolation", "scores", "median\nerror", "bias", "in 50 %\nband")
    opened = ("open\nbands", "below open\nband's end")
    table = _frame([*heads, "in 90 %\nband", *opened, "50 %\nfactor", "90 %\nfactor"])
    for row in errors.to_dict("records"):
        table.add_row(
            str(row["extrapolation"]),
            units.count(row["num_scores"]),
            units.percent(row["median_error"]),
            f"{100 * row['bias']:+z.1f} %",
            units.percent(row["in_50"], 0),
            _share(row["in_90"]),
            units.count(row["num_open"]),
            _share(row["open_in_95"]),
            *(_factor(row[name]) for name in ("factor_50", "factor_90")),
        )
    return table


def _share(value: float) -> str:
    return units.MISSING if math.isnan(value) else units.percent(value, 0)


def _factor(value: float) -> str:
    return units.MISSING if math.isnan(value) else f"x/÷ {value:.3f}"


def _frame(heads: Sequence[str]) -> Table:
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table
