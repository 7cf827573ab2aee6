"""Measured length of the cycles of Horovod's background loop.

Tested in ``tests/figures/test_negotiation.py``.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof.figures.style.log_axis import log_axis
from hvdprof.figures.style.outline import log_edges, outline
from hvdprof.figures.style.palette import NEUTRAL_COLOUR, empty_figure, say
from hvdprof.model.launch_key import LAUNCH

_MARK = "CYCLE_START"
_SHORTEST_MS = 1e-3


def cycle_times(events: pd.DataFrame) -> go.Figure:
    """The distribution of the time between two cycle marks of a timeline.

    Args:
        events: Rows of EVENTS; only a timeline written with HOROVOD_TIMELINE_MARK_CYCLES=1 holds
            the marks.
    """
    figure = empty_figure(360)
    marks = events[(events["activity"] == _MARK).to_numpy(dtype=bool)]
    names = dict.fromkeys(LAUNCH, str)
    lengths = marks.astype(names).groupby(LAUNCH, sort=False)["start_ns"].diff()
    times = np.maximum(lengths.dropna().to_numpy(dtype=np.float64) / 1e6, _SHORTEST_MS)
    if not len(times):
        return say(
            figure,
            "The timeline holds no cycle marks.<br>Set HOROVOD_TIMELINE_MARK_CYCLES=1 to record "
            "them.",
        )
    edges = log_edges(times)
    figure.add_trace(outline(times, edges, "", NEUTRAL_COLOUR))
    figure.update_xaxes(title_text="cycle length, ms", **log_axis(edges))
    figure.update_yaxes(title_text="cycles", rangemode="tozero")
    return figure


def has_cycles(events: pd.DataFrame) -> bool:
    """Whether there are marks of cycles in rows of EVENTS."""
    return bool((events["activity"] == _MARK).any())
