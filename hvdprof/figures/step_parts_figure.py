"""Parts of a step, by rank and over the steps of one launch."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.figures.style.palette import (
    NEUTRAL_COLOUR,
    PART_COLOURS,
    empty_figure,
    say,
    translucent,
)
from hvdprof.figures.style.step_bins import bin_means, bin_starts
from hvdprof.model.step_parts import PART_NAMES, RECORDED_PARTS

_MOST_STEPS = 500
_MOST_TICKS = 16
_MOST_SHADES = 40


def parts_by_rank(breakdown: pd.DataFrame) -> go.Figure:
    """The mean steady step of each rank, stacked by part.

    Args:
        breakdown: Rows of BREAKDOWN of one launch.
    """
    figure = empty_figure(400)
    if breakdown.empty:
        return say(figure, "This launch has no recorder files.")
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
    num_ranks = breakdown["rank"].nunique()
    figure.update_layout(barmode="stack", bargap=0.35 if num_ranks <= 32 else 0)
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text="rank", dtick=1 if num_ranks <= _MOST_TICKS else None)
    figure.update_yaxes(title_text="mean step, ms", rangemode="tozero")
    return figure


def parts_over_steps(steps: pd.DataFrame) -> go.Figure:
    """The parts of each step, means over ranks, stacked; steps that do not count are shaded.

    Above 500 steps, means over neighbouring steps are drawn, and the axis says so.

    Args:
        steps: Rows of STEPS of one launch.
    """
    figure = empty_figure(400)
    if steps.empty:
        return say(figure, "This launch has no recorder files.")
    columns = [f"{part}_ns" for part in RECORDED_PARTS]
    by_step = steps.groupby("step")[columns].mean()
    starts = bin_starts(len(by_step), _MOST_STEPS)
    for part in RECORDED_PARTS:
        times = by_step[f"{part}_ns"].to_numpy(dtype=np.float64)
        # Not measured, such as within a compiled step on a GPU.
        if np.isnan(times).all():
            continue
        figure.add_trace(
            go.Scatter(
                x=by_step.index.to_numpy()[starts],
                y=bin_means(times, starts) / 1e6,
                mode="lines",
                stackgroup="parts",
                name=PART_NAMES[part],
                line={"color": PART_COLOURS[part], "width": 0.5},
                fillcolor=translucent(PART_COLOURS[part], 0.85),
                hovertemplate=f"step %{{x}}, {PART_NAMES[part]}: %{{y:.3~g}} ms<extra></extra>",
            )
        )
    is_warm = steps.groupby("step")["warmup"].any().to_numpy(dtype=bool)
    _shade_excluded(figure, by_step.index.to_numpy(dtype=np.float64), is_warm)
    binned = f" (means of {len(by_step)} steps in {len(starts)})" * (len(starts) < len(by_step))
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text=f"step{binned}")
    figure.update_yaxes(title_text="mean over ranks, ms", rangemode="tozero")
    return figure


def _shade_excluded(
    figure: go.Figure, steps: NDArray[np.float64], is_warm: NDArray[np.bool_]
) -> None:
    """Shade runs of excluded steps: the warm-up, and the first step of each turn."""
    edges = np.flatnonzero(np.diff(is_warm.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    # Hundreds of shapes are slow to draw; the warm-up is the first of them.
    for begin, end in edges[:_MOST_SHADES]:
        figure.add_vrect(
            x0=steps[begin] - 0.5 if begin else steps[begin],
            x1=steps[end - 1] + 0.5,
            # Grey: on a dark page white would glare.
            fillcolor=NEUTRAL_COLOUR,
            opacity=0.45,
            line_width=0,
            layer="above",
        )
    if is_warm[0]:
        figure.add_annotation(
            x=steps[0],
            y=1,
            yref="paper",
            text="warm-up",
            showarrow=False,
            xanchor="left",
            yanchor="top",
        )
