"""Fusion of tensors: fill of the fusion buffer, and executions per step."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.log_axis import log_axis
from hvdprof.figures.style.outline import log_edges, outline
from hvdprof.figures.style.palette import LINE_COLOURS, empty_figure, say
from hvdprof.figures.style.plain_text import plain
from hvdprof.figures.style.step_bins import bin_means, bin_starts

_HEIGHT = 360
_MOST_STEPS = 500
_WIDE = 20


def fusion_fill(collectives: pd.DataFrame) -> go.Figure:
    """Distribution of payload divided by fusion threshold, one line per collective, no warm-up.

    Args:
        collectives: COLLECTIVES.
    """
    figure = empty_figure(_HEIGHT)
    steady = _steady(collectives)
    steady = steady[steady["fill"] > 0]
    if steady.empty:
        return say(figure, "The size of the fusion buffer or of the payloads is not known here.")
    edges = log_edges(100 * steady["fill"].to_numpy(dtype=np.float64))
    for place, (name, rows) in enumerate(steady.astype({"collective": str}).groupby("collective")):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        figure.add_trace(outline(100 * rows["fill"].to_numpy(), edges, plain(name), colour))
    figure.add_vline(x=100, line={"dash": "dash", "color": "#666666", "width": 1})
    figure.update_xaxes(title_text="fill of the fusion buffer, %", **log_axis([*edges, 100]))
    figure.update_yaxes(title_text="executions", rangemode="tozero")
    return figure


def messages_per_step(collectives: pd.DataFrame) -> go.Figure:
    """Executed collectives in each step, and the tensors in them.

    Above 500 steps, means over neighbouring steps are drawn, and the axis says so.

    Args:
        collectives: COLLECTIVES of one launch.
    """
    figure = empty_figure(_HEIGHT)
    steady = _steady(collectives)
    steady = steady[steady["step"] >= 0]
    if steady.empty:
        return say(figure, "No collective of this launch belongs to a known step.")
    by_step = steady.groupby("step").agg(
        executions=("fusion_id", "size"), tensors=("num_tensors", "sum")
    )
    starts = bin_starts(len(by_step), _MOST_STEPS)
    for place, (column, name) in enumerate(
        {"executions": "collectives executed", "tensors": "tensors in them"}.items()
    ):
        values = by_step[column].to_numpy(dtype=np.float64)
        figure.add_trace(
            go.Scatter(
                x=by_step.index.to_numpy()[starts],
                y=bin_means(values, starts),
                mode="lines+markers",
                marker={"size": 4},
                name=f"{name}, mean {units.rate(float(values.mean()))} per step",
                line={"color": LINE_COLOURS[place], "width": 1.5},
                hovertemplate="step %{x}: %{y:.4~g}<extra></extra>",
            )
        )
    binned = f" (means of {len(by_step)} steps in {len(starts)})" * (len(starts) < len(by_step))
    figure.update_xaxes(title_text=f"step{binned}")
    is_wide = by_step["tensors"].max() > _WIDE * by_step["executions"].min()
    shape = log_axis(by_step.to_numpy()) if is_wide else {"rangemode": "tozero"}
    figure.update_yaxes(title_text="number per step", **shape)
    return figure


def _steady(collectives: pd.DataFrame) -> pd.DataFrame:
    return collectives[~collectives["warmup"].to_numpy(dtype=bool)]
