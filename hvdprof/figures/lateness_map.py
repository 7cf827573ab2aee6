"""Lateness of each rank in each step, as a heat map."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.palette import LATE_SCALE, empty_figure, say
from hvdprof.figures.style.step_bins import bin_largest, bin_starts

_MOST_STEPS = 2000
_MOST_RANKS = 128
_MOST_CELLS = 80_000
_COLOUR_QUANTILE = 0.99
_MOST_TICKS = 16


def lateness_map(lateness: pd.DataFrame) -> go.Figure:
    """Ranks by steps, coloured by lateness against the median of the other ranks.

    Above 2,000 steps, 128 ranks or 80,000 cells a cell stands for several and shows the largest
    lateness of them; the axis says so.

    Args:
        lateness: Rows of LATENESS of one launch, by step and rank.
    """
    figure = empty_figure()
    if lateness.empty:
        return say(figure, "No launch of two or more ranks has steps recorded on all of them.")
    steps, ranks = (np.unique(lateness[name].to_numpy()) for name in ("step", "rank"))
    late_ms = lateness["lateness_ns"].to_numpy().reshape(len(steps), len(ranks)) / 1e6
    rank_starts = bin_starts(len(ranks), _MOST_RANKS)
    most_columns = min(_MOST_STEPS, max(_MOST_CELLS // len(rank_starts), 1))
    step_starts = bin_starts(len(steps), most_columns)
    cells = bin_largest(bin_largest(late_ms, step_starts).T, rank_starts)
    limit = max(float(np.quantile(np.abs(cells), _COLOUR_QUANTILE)), 1e-3)
    figure.add_trace(
        go.Heatmap(
            z=cells.astype(np.float32),
            x=steps[step_starts].astype(np.float64),
            y=ranks[rank_starts].astype(np.float64),
            colorscale=list(LATE_SCALE),
            zmin=-limit,
            zmax=limit,
            colorbar={"title": {"text": "lateness, ms"}, "thickness": 14, "outlinewidth": 0},
            hovertemplate="rank %{y}, step %{x}: %{z:.3~g} ms<extra></extra>",
        )
    )
    figure.update_layout(height=max(260, min(160 + 26 * len(rank_starts), 620)))
    figure.update_xaxes(title_text=_title("step", len(steps), len(step_starts)), showgrid=False)
    figure.update_yaxes(
        title_text=_title("rank", len(ranks), len(rank_starts)),
        showgrid=False,
        autorange="reversed",
        dtick=1 if len(rank_starts) <= _MOST_TICKS else None,
    )
    return figure


def _title(what: str, number: int, shown: int) -> str:
    if number == shown:
        return what
    return f"{what} (binned: {units.count(number)} {what}s in {shown}, the largest of each)"
