"""How long tensors were negotiated: from the first rank that was ready to the last."""

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
    """The distribution of negotiation times, a line a collective, warm-up left out.

    Horovod stamps whole microseconds; shorter times stand at one.

    Args:
        uses: Rows of TENSOR_USES.
    """
    figure = empty_figure(380)
    kept = uses[~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy()]
    if kept.empty:
        return say(figure, "No negotiation is in a timeline of this run.")
    times = kept["negotiation_ns"].to_numpy(dtype=np.float64) / 1e6
    times = np.maximum(times, _SHORTEST_MS)
    edges = log_edges(times)
    collectives = kept["collective"]
    for place, name in enumerate(sorted(collectives.unique())):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        of_name = times[(collectives == name).to_numpy(dtype=bool)]
        figure.add_trace(outline(of_name, edges, plain(name), colour))
    figure.update_xaxes(title_text="negotiation of a tensor, ms", **log_axis(edges))
    figure.update_yaxes(title_text="tensors", rangemode="tozero")
    return figure


def longest_negotiations(uses: pd.DataFrame, most: int = 10) -> pd.DataFrame:
    """The longest negotiations, one a step of a launch, longest first; warm-up left out.

    Columns: pass_id, segment, step, tensor, negotiation_ns.

    Args:
        uses: TENSOR_USES.
        most: How many to return.
    """
    columns = ["pass_id", "segment", "step", "tensor", "negotiation_ns"]
    kept = uses.loc[
        ~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy(), columns
    ]
    return largest_of_each(kept, "negotiation_ns", ["pass_id", "segment", "step"], most)
