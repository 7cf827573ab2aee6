"""Overlap of communication and computation, over the steps of one launch."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.palette import COVER_COLOURS, empty_figure, say, translucent
from hvdprof.figures.style.step_bins import bin_means, bin_starts

_MOST_STEPS = 500

_NAMES = {
    "overlapped_ns": "overlapped by computation",
    "blocking_exposed_ns": "blocking exposed communication",
    "other_exposed_ns": "other exposed communication (in no phase)",
}


def overlap_per_step(overlap: pd.DataFrame) -> go.Figure:
    """Communication time in each step, stacked by the state of the rank.

    Means over ranks; above 500 steps, means over neighbouring steps too, and the axis says so.

    Args:
        overlap: Rows of OVERLAP of one launch.
    """
    figure = empty_figure(400)
    if overlap.empty:
        return say(figure, "Overlap requires recorder files and a timeline of the same launch.")
    columns = ["communication_ns", "overlapped_ns", "exposed_ns", "blocking_exposed_ns"]
    by_step = overlap.groupby("step")[columns].mean()
    by_step["other_exposed_ns"] = by_step["exposed_ns"] - by_step["blocking_exposed_ns"]
    starts = bin_starts(len(by_step), _MOST_STEPS)
    whole = float(by_step["communication_ns"].sum())
    for column, name in _NAMES.items():
        values = by_step[column].to_numpy(dtype=np.float64)
        share = units.percent(float(values.sum()) / whole if whole else float("nan"), 0)
        figure.add_trace(
            go.Scatter(
                x=by_step.index.to_numpy()[starts],
                y=bin_means(values, starts) / 1e6,
                mode="lines",
                stackgroup="communication",
                name=f"{name}: {share}",
                line={"color": COVER_COLOURS[column], "width": 0.8, "shape": "hvh"},
                fillcolor=translucent(COVER_COLOURS[column], 0.75),
                hovertemplate=f"step %{{x}}, {name}: %{{y:.3~g}} ms<extra></extra>",
            )
        )
    binned = f" (means of {len(by_step)} steps in {len(starts)})" * (len(starts) < len(by_step))
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text=f"step{binned}")
    figure.update_yaxes(title_text="communication per step, ms", rangemode="tozero")
    return figure
