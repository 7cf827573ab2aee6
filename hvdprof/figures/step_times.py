"""A step: its parts by rank and step, the distribution of its times, and their course."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.figures.launch import (
    bin_largest,
    bin_means,
    bin_starts,
    launches_in,
    rows_of_launch,
    step_names,
)
from hvdprof.figures.palette import (
    LINE_COLOURS,
    NEUTRAL_COLOUR,
    PART_COLOURS,
    empty_figure,
    linear_edges,
    outline,
    plain,
    say,
)
from hvdprof.model.arrays import Int64s
from hvdprof.model.causes import PART_NAMES, RECORDED_PARTS

_MOST_STEPS = 500
_MOST_TICKS = 16
_MOST_SHADES = 40
_ALIKE = 0.05
_VISIBLE = 0.005
_FEWEST_BINS = 20
_SIGNIFICANT = 2.0


def parts_by_rank(breakdown: pd.DataFrame) -> go.Figure:
    """The mean steady step of each rank, stacked by part; one bar where all are alike.

    Ranks are alike where no part of any differs from its mean by 5 % of the step or more.
    """
    figure = empty_figure(400)
    if breakdown.empty:
        return say(figure, "This launch has no recorder files.")
    num_ranks = breakdown["rank"].nunique()
    times = breakdown.pivot_table(
        index="part", columns="rank", values="time_ns", observed=True
    ).to_numpy()
    middle = np.nanmean(times, axis=1, keepdims=True)
    is_alike = num_ranks > 1 and np.nanmax(np.abs(times - middle)) < _ALIKE * middle.sum()
    if is_alike:
        breakdown = breakdown[breakdown["rank"] == breakdown["rank"].min()]
    for part in RECORDED_PARTS:
        rows = breakdown[breakdown["part"] == part]
        rows = rows.sort_values("rank")
        figure.add_trace(
            go.Bar(
                x=rows["rank"],
                y=rows["time_ns"] / 1e6,
                name=PART_NAMES[part],
                marker={"color": PART_COLOURS[part]},
                hovertext=[
                    f"<b>rank {row['rank']}, {PART_NAMES[part]}</b><br>"
                    + units.interval_of_unit(
                        row["time_ns"], row["time_low_ns"], row["time_high_ns"], "ns"
                    )
                    + f"<br>{units.percent(row['share'])} of the step"
                    for row in rows.to_dict("records")
                ],
                hoverinfo="text",
            )
        )
    title = f"rank (all {num_ranks} are alike within 5 % of the step)" if is_alike else "rank"
    figure.update_layout(barmode="stack", bargap=0.35 if num_ranks <= 32 else 0)
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text=title, dtick=1 if num_ranks <= _MOST_TICKS else None)
    figure.update_yaxes(title_text="mean step, ms", rangemode="tozero")
    return figure


def parts_over_steps(steps: pd.DataFrame) -> go.Figure:
    """The parts of each step as bars, means over ranks; steps that do not count are shaded.

    Above 500 steps, means over neighbouring steps are drawn, and the axis says so. A bar is as wide
    as its steps: those of a window of a light recording, too.

    Args:
        steps: Rows of STEPS of one launch, of one or several ranks.
    """
    figure = empty_figure(220)
    if steps.empty:
        return say(figure, "This launch has no recorder files.")
    columns = [f"{part}_ns" for part in RECORDED_PARTS]
    by_step = steps.groupby("step")[[*columns, "num_steps"]].mean()
    starts = bin_starts(len(by_step), _MOST_STEPS)
    first = by_step.index.to_numpy(dtype=np.int64)
    end = first + by_step["num_steps"].to_numpy(dtype=np.int64)
    width = np.append(end[starts[1:] - 1], end[-1]) - first[starts]
    for part in RECORDED_PARTS:
        times = by_step[f"{part}_ns"].to_numpy(dtype=np.float64)
        # Not measured, such as within a compiled step on a GPU, or never there.
        if not (times > 0).any():
            continue
        share = np.nansum(times) / float(by_step[columns].sum().sum())
        figure.add_trace(
            go.Bar(
                x=first[starts],
                width=width.astype(np.float64),
                offset=-0.5,
                y=bin_means(times, starts) / 1e6,
                hovertext=step_names(first[starts], width),
                name=PART_NAMES[part],
                # A phone has room for the names of what can be seen.
                showlegend=bool(share >= _VISIBLE),
                marker={"color": PART_COLOURS[part], "line": {"width": 0}},
                hovertemplate=f"%{{hovertext}}, {PART_NAMES[part]}: %{{y:.3~g}} ms<extra></extra>",
            )
        )
    is_warm = steps.groupby("step")["warmup"].any().to_numpy(dtype=bool)
    _shade_excluded(figure, first, end, is_warm)
    has_windows = bool((end - first > 1).any())
    kind = "windows" if has_windows else "steps"
    binned = " (a bar is a window of steps with their mean)" * has_windows
    if len(starts) < len(by_step):
        binned = f" (means of {len(by_step)} {kind} in {len(starts)})"
    figure.update_layout(legend={"traceorder": "normal"}, barmode="stack", bargap=0)
    figure.update_xaxes(title_text=f"step{binned}")
    mean = "<br>(mean of ranks)" * (len(set(steps["rank"])) > 1)
    figure.update_yaxes(title_text=f"step, ms{mean}", rangemode="tozero")
    return figure


def steps_of_ranks(steps: pd.DataFrame, culprit: int | None = None) -> dict[str, pd.DataFrame]:
    """The steps of the culprit and of the median rank by title; of all ranks where they are alike.

    Ranks are alike where the own work of none differs by 5 % of the step or more.

    Args:
        steps: Rows of STEPS of one launch; without any, nothing is returned.
        culprit: The rank that costs most; by default the one with the longest own work.
    """
    own = steps.assign(own_ns=steps["dur_ns"] - steps["blocked_ns"].fillna(0))
    counted = own[~own["warmup"].to_numpy(dtype=bool)]
    means = (counted if len(counted) else own).groupby("rank")[["own_ns", "dur_ns"]].mean()
    if means.empty:
        return {}
    work = means["own_ns"].sort_values(ascending=False)
    ranks = work.index.tolist()
    if len(ranks) > 1 and work.iloc[0] - work.iloc[-1] < _ALIKE * means["dur_ns"].mean():
        return {f"Steps: mean of {len(ranks)} ranks, alike within 5 % of the step": steps}
    slowest = culprit if culprit in ranks else ranks[0]
    titles = {slowest: "highest cost" if slowest == culprit else "longest own work"}
    middle = len(ranks) // 2
    others = [rank for rank in (ranks[middle], ranks[middle - 1]) if rank != slowest]
    titles |= dict.fromkeys(others[:1], "median own work" if len(ranks) > 2 else "the other rank")
    return {
        f"Steps of rank {rank}" + f": {kind}" * bool(others): steps[
            (steps["rank"] == rank).to_numpy()
        ]
        for rank, kind in titles.items()
    }


def _shade_excluded(
    figure: go.Figure, first: Int64s, end: Int64s, is_warm: NDArray[np.bool_]
) -> None:
    """Shade runs of excluded steps: the warm-up, and the first step of each turn."""
    edges = np.flatnonzero(np.diff(is_warm.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    # Hundreds of shapes are slow to draw; the warm-up is the first of them.
    for begin, stop in edges[:_MOST_SHADES]:
        figure.add_vrect(
            x0=first[begin] - 0.5,
            x1=end[stop - 1] - 0.5,
            # Grey: on a dark page white would glare.
            fillcolor=NEUTRAL_COLOUR,
            opacity=0.45,
            line_width=0,
            layer="above",
        )
    if is_warm[0]:
        figure.add_annotation(
            x=first[0],
            y=1,
            yref="paper",
            text="warm-up",
            showarrow=False,
            xanchor="left",
            yanchor="top",
        )


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
    edges = linear_edges(steady["dur_ns"].to_numpy(dtype=np.float64) / 1e6, fewest=_FEWEST_BINS)
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
    """A line through the mean; it has a slope where the drift is beyond two standard errors."""
    mean_ms, drift = row["step_time_ns"] / 1e6, row["drift"]
    error = row["drift_error"]
    is_drift = bool(abs(drift) > _SIGNIFICANT * error)
    change = f",<br>drift {units.percent(drift)} (standard error {units.percent(error)})"
    name = f"mean {units.milliseconds(row['step_time_ns'])}{change * is_drift}"
    half = drift / 2 * is_drift
    return go.Scatter(
        x=[first, last],
        y=[mean_ms * (1 - half), mean_ms * (1 + half)],
        mode="lines",
        name=name,
        line={"color": LINE_COLOURS[1], "width": 2},
        hoverinfo="skip",
    )
