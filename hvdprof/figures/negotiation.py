"""Negotiation time of tensors: from the first ready rank to the last."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof.figures.style.log_axis import log_axis
from hvdprof.figures.style.longest import largest_of_each
from hvdprof.figures.style.outline import log_edges, outline
from hvdprof.figures.style.palette import LINE_COLOURS, empty_figure, say
from hvdprof.figures.style.plain_text import plain

_SHORTEST_MS = 1e-3


def negotiation_times(uses: pd.DataFrame) -> go.Figure:
    """Distribution of negotiation times, one line per collective, without warm-up.

    Horovod stamps whole microseconds; shorter times are shown as one.

    Args:
        uses: Rows of TENSOR_USES.
    """
    figure = empty_figure(380)
    steady = uses[~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy()]
    if steady.empty:
        return say(figure, "No timeline of this run holds a negotiation.")
    times = steady["negotiation_ns"].to_numpy(dtype=np.float64) / 1e6
    times = np.maximum(times, _SHORTEST_MS)
    edges = log_edges(times)
    collectives = steady["collective"]
    for place, name in enumerate(sorted(collectives.unique())):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        of_name = times[(collectives == name).to_numpy(dtype=bool)]
        figure.add_trace(outline(of_name, edges, plain(name), colour))
    figure.update_xaxes(title_text="negotiation per tensor, ms", **log_axis(edges))
    figure.update_yaxes(title_text="tensors", rangemode="tozero")
    return figure


def longest_negotiations(uses: pd.DataFrame, most: int = 10) -> pd.DataFrame:
    """The longest negotiation of each step of a launch, longest first, without warm-up.

    Columns: pass_id, segment, step, tensor, negotiation_ns.

    Args:
        uses: TENSOR_USES.
        most: How many to return.
    """
    columns = ["pass_id", "segment", "step", "tensor", "negotiation_ns"]
    steady = uses.loc[
        ~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy(), columns
    ]
    return largest_of_each(steady, "negotiation_ns", ["pass_id", "segment", "step"], most)
