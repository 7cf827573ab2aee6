"""A forecast of scaling: bands over the number of ranks, and lost points by cause."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.palette import (
    CAUSE_COLOURS,
    LINE_COLOURS,
    LINE_DASHES,
    NEUTRAL_COLOUR,
    band,
    efficiency_bars,
    empty_figure,
    plain,
    say,
    translucent,
)
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import FORECAST_TERMS, part_of_cause
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.results.forecast import MEASURED, Forecast

_WIDE_OPACITY, _NARROW_OPACITY = 0.12, 0.22
_MEASURED_COLOUR = "#222222"
_SMALLEST_SHARE = 0.0005
_ROOM = 1.3
"""Factor by which the axis reaches beyond the sizes."""


def forecast_curve(forecast: Forecast, scaling: pd.DataFrame) -> go.Figure:
    """Efficiency over np: measured points, and per network the median with its bands.

    The wide band holds 90 %, the narrow one 50 % of the draws. The colour of a marker is that of
    the dominating cause. A dashed vertical line is the knee, a dashed horizontal one the target.
    A band without a known lower end reaches down to the axis.

    Args:
        forecast: A finished forecast.
        scaling: SCALING of the run, without rows where there is no run.
    """
    figure = empty_figure()
    if forecast.rows.empty:
        return say(figure, "No size was predicted.")
    measured = _measured(forecast, scaling)
    sizes = sorted({*forecast.rows["np"], *measured["np"]})
    for number, scenario in enumerate(forecast.scenarios):
        rows = forecast.rows[forecast.rows["scenario"] == scenario].sort_values("np")
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        network = "forecast" if scenario == MEASURED else scenario
        label = plain(f"{network}{forecast.question.what_if_clause}")
        figure.add_trace(_band(rows, "p5", "p95", colour, _WIDE_OPACITY, label))
        figure.add_trace(_band(rows, "p25", "p75", colour, _NARROW_OPACITY, label))
        figure.add_trace(_median(rows, colour, LINE_DASHES[number % len(LINE_DASHES)], label))
    for trace in _legend_of_causes(forecast.rows):
        figure.add_trace(trace)
    if len(measured):
        figure.add_trace(_points(measured))
    _add_limits(figure, forecast)
    figure.update_xaxes(
        title_text="ranks (np)",
        type="log",
        tickvals=sizes,
        ticktext=[str(size) for size in sizes],
        range=[math.log10(sizes[0] / _ROOM), math.log10(sizes[-1] * _ROOM)],
    )
    highest = pd.concat([forecast.rows["efficiency_p95"], measured["efficiency"]]).max()
    top = max(1.05, float(highest) + 0.05)
    figure.update_yaxes(title_text="scaling efficiency", tickformat=".0%", range=[0, top])
    return figure


def forecast_causes(forecast: Forecast, scenario: str) -> go.Figure:
    """Lost points of efficiency by cause, one stacked bar per predicted size.

    The bars of a size sum to 100 % minus its mean efficiency; gains are below zero.
    """
    figure = empty_figure()
    causes = forecast.causes[forecast.causes["scenario"] == scenario]
    if causes.empty:
        return say(figure, "The forecast has no causes.")
    sizes = [str(size) for size in sorted(causes["np"].unique())]
    for term, name in FORECAST_TERMS.items():
        rows = causes[causes["term"] == term].groupby("np", sort=True)["share"].sum()
        if rows.empty or rows.abs().max() < _SMALLEST_SHARE:
            continue
        figure.add_trace(
            go.Bar(
                x=[str(size) for size in rows.index],
                y=rows,
                name=name,
                marker={"color": CAUSE_COLOURS[term]},
                hovertext=[
                    f"<b>{name}</b><br>{units.percent(share)} of the step on {size} ranks"
                    for size, share in rows.items()
                ],
                hoverinfo="text",
            )
        )
    figure.update_layout(barmode="relative", bargap=0.35, legend={"traceorder": "normal"})
    figure.update_xaxes(
        title_text="ranks (np)", type="category", categoryorder="array", categoryarray=sizes
    )
    figure.update_yaxes(title_text="lost efficiency", tickformat=".0%")
    return figure


def _measured(forecast: Forecast, scaling: pd.DataFrame) -> pd.DataFrame:
    """The rows of SCALING that the forecast rests on, the baseline of its own size included."""
    if scaling.empty:
        return scaling
    sizes = [
        of_base_cell(scaling, forecast.model, size, forecast.engine)
        for size in forecast.measured_np
    ]
    return pd.concat([scaling.head(0), *sizes])


def _band(
    rows: pd.DataFrame, low: str, high: str, colour: str, opacity: float, label: str
) -> go.Scatter:
    lower = rows[f"efficiency_{low}"].fillna(0.0)
    return band(rows["np"], lower, rows[f"efficiency_{high}"], translucent(colour, opacity), label)


def _median(rows: pd.DataFrame, colour: str, dash: str, label: str) -> go.Scatter:
    return go.Scatter(
        x=rows["np"],
        y=rows["efficiency_p50"],
        mode="lines+markers",
        name=f"{label} (50 and 90 % band)",
        legendgroup=label,
        line={"color": colour, "width": 2, "dash": dash},
        marker={
            "size": 11,
            "color": [CAUSE_COLOURS.get(cause, NEUTRAL_COLOUR) for cause in rows["dominating"]],
            "line": {"color": colour, "width": 1.5},
        },
        hovertext=[_hover_text(row) for row in rows.to_dict("records")],
        hoverinfo="text",
    )


def _points(measured: pd.DataFrame) -> go.Scatter:
    return go.Scatter(
        x=measured["np"],
        y=measured["efficiency"],
        error_y=efficiency_bars(measured, _MEASURED_COLOUR),
        mode="markers",
        name="measured",
        marker={"size": 9, "symbol": "diamond", "color": _MEASURED_COLOUR},
        hovertext=[
            f"<b>measured, np={row['np']}</b><br>efficiency "
            + units.percent_interval(
                row["efficiency"], row["efficiency_low"], row["efficiency_high"]
            )
            for row in measured.to_dict("records")
        ],
        hoverinfo="text",
    )


def _legend_of_causes(rows: pd.DataFrame) -> list[go.Scatter]:
    named = [term for term in FORECAST_TERMS if term in set(rows["dominating"])]
    return [
        go.Scatter(
            x=[np.nan],
            y=[np.nan],
            mode="markers",
            name=f"limited by {FORECAST_TERMS[term]}",
            marker={"size": 11, "color": CAUSE_COLOURS[term]},
        )
        for term in named
    ]


def _add_limits(figure: go.Figure, forecast: Forecast) -> None:
    goal = forecast.question.target
    figure.add_hline(y=goal, line={"color": NEUTRAL_COLOUR, "dash": "dash", "width": 1.5})
    knees = dict.fromkeys(limit.knee for limit in forecast.limits if limit.knee is not None)
    for knee in knees:
        figure.add_vline(x=knee, line={"color": NEUTRAL_COLOUR, "dash": "dot", "width": 1.5})
        # On a logarithmic axis plotly places lines by their value, but texts by its logarithm.
        figure.add_annotation(
            text=f"knee {knee}",
            x=math.log10(knee),
            y=0,
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
        )


def _hover_text(row: FrameRow) -> str:
    efficiency = units.percent_band(*(row[f"efficiency_{q}"] for q in ("p50", "p5", "p95")))
    cause = FORECAST_TERMS.get(row["dominating"], "no single cause")
    part = part_of_cause(str(row["dominating_part"]))
    return (
        f"<b>np={row['np']}, {plain(row['scenario'])}</b><br>efficiency {efficiency}<br>"
        f"{units.rate(row['samples_per_s_p50'])} samples/s<br>limited by {cause}{part}"
    )
