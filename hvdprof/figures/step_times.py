"""Step times: their distribution, and their course with warm-up and drift."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.launch import launches_in, rows_of_launch
from hvdprof.figures.style.outline import linear_edges, outline
from hvdprof.figures.style.palette import LINE_COLOURS, NEUTRAL_COLOUR, empty_figure, say
from hvdprof.figures.style.plain_text import plain
from hvdprof.figures.style.step_bins import bin_largest, bin_starts

_HEIGHT = 380
_MOST_POINTS = 2000


def step_time_distribution(job_steps: pd.DataFrame) -> go.Figure:
    """Distribution of the step time of the job, one outline per launch, steady steps alone.

    Args:
        job_steps: Rows of JOB_STEPS of one or several launches.
    """
    figure = empty_figure(_HEIGHT)
    steady = job_steps[job_steps["steady"].to_numpy(dtype=bool)]
    if steady.empty:
        return say(figure, "No launch has steady steps.")
    edges = linear_edges(steady["dur_ns"].to_numpy(dtype=np.float64) / 1e6)
    for place, launch in enumerate(launches_in(steady)):
        times = rows_of_launch(steady, launch)["dur_ns"].to_numpy(dtype=np.float64) / 1e6
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        figure.add_trace(outline(times, edges, plain(launch[0]), colour))
    has_windows = bool((job_steps["num_steps"] > 1).any())
    mean = "step time of the job, mean of a window, ms"
    figure.update_xaxes(title_text=mean if has_windows else "step time of the job, ms")
    figure.update_yaxes(title_text="windows" if has_windows else "steps", rangemode="tozero")
    return figure


def step_time_course(job_steps: pd.DataFrame, launches: pd.DataFrame) -> go.Figure:
    """Step times of a launch, the steps excluded as warm-up, and the drift.

    Above 2,000 steps, the longest of neighbouring steps is drawn, and the axis says so.

    Args:
        job_steps: Rows of JOB_STEPS of one launch.
        launches: Its row of LAUNCHES, with the mean and the drift; may be missing.
    """
    figure = empty_figure(_HEIGHT)
    if job_steps.empty:
        return say(figure, "No step of this launch was recorded on all ranks.")
    is_steady = job_steps["steady"].to_numpy(dtype=bool)
    for mask, name, colour, symbol in (
        (~is_steady, "excluded as warm-up", NEUTRAL_COLOUR, "circle-open"),
        (is_steady, "steady state", LINE_COLOURS[0], "circle"),
    ):
        if mask.any():
            figure.add_trace(_points(job_steps[mask], name, colour, symbol))
    if len(launches) and is_steady.any():
        steps = job_steps["step"].to_numpy()[is_steady]
        row = launches.iloc[0]
        figure.add_trace(_drift_line(float(steps[0]), float(steps[-1]), row))
    binned = len(job_steps) > _MOST_POINTS
    more = f" (longest of neighbouring steps; {units.count(len(job_steps))} steps)" * binned
    figure.update_xaxes(title_text=f"step{more}")
    figure.update_yaxes(title_text="step time of the job, ms", rangemode="tozero")
    return figure


def _points(rows: pd.DataFrame, name: str, colour: str, symbol: str) -> go.Scatter:
    starts = bin_starts(len(rows), _MOST_POINTS)
    times = rows["dur_ns"].to_numpy(dtype=np.float64) / 1e6
    return go.Scatter(
        x=rows["step"].to_numpy()[starts],
        y=bin_largest(times, starts),
        mode="markers",
        name=f"{name}: {units.count(int(rows['num_steps'].sum()))} steps",
        marker={"color": colour, "size": 5, "symbol": symbol},
        hovertemplate="step %{x}: %{y:.4~g} ms<extra></extra>",
    )


def _drift_line(first: float, last: float, row: "pd.Series[float]") -> go.Scatter:
    """A straight line through the mean that changes by the drift over the steady steps."""
    mean_ms, drift = row["step_time_ns"] / 1e6, row["drift"]
    error = row["drift_error"]
    return go.Scatter(
        x=[first, last],
        y=[mean_ms * (1 - drift / 2), mean_ms * (1 + drift / 2)],
        mode="lines",
        name=f"mean {units.milliseconds(row['step_time_ns'])},<br>drift "
        f"{units.percent(drift)} (standard error {units.percent(error)})",
        line={"color": LINE_COLOURS[1], "width": 2},
        hoverinfo="skip",
    )
