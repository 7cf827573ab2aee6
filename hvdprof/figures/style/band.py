"""Areas: between two lines, such as ends of intervals, and outlines of distributions."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof.figures.style.palette import translucent

_MOST_BINS = 60


def linear_edges(values: NDArray[np.float64], fewest: int = 1) -> NDArray[np.float64]:
    """Edges of bins of equal width over the values, by Freedman and Diaconis (1981), at most 60.

    Args:
        values: The values.
        fewest: So many bins at least, unless all values are equal.
    """
    if len(values) < 2 or values.min() == values.max():
        middle = float(values[0]) if len(values) else 0.0
        return np.array([middle - 0.5 * (abs(middle) or 1.0), middle + 0.5 * (abs(middle) or 1.0)])
    edges = np.histogram_bin_edges(values, bins="fd")
    number = int(np.clip(len(edges) - 1, fewest, _MOST_BINS))
    return np.linspace(values.min(), values.max(), number + 1)


def log_edges(values: NDArray[np.float64], bins_per_decade: int = 8) -> NDArray[np.float64]:
    """Edges of bins of equal ratio over positive values."""
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    high = max(high, low + 1)
    return np.logspace(low, high, int(high - low) * bins_per_decade + 1)


def outline(
    values: NDArray[np.float64], edges: NDArray[np.float64], name: str, colour: str
) -> go.Scatter:
    """Number of values in each bin, as a stepped line with its area filled."""
    counts, _ = np.histogram(values, edges)
    return go.Scatter(
        x=edges,
        y=np.append(counts, 0),
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 1.5},
        fill="tozeroy",
        fillcolor=translucent(colour, 0.18),
        name=name,
        showlegend=bool(name),
        hovertemplate="from %{x:.3~g}: %{y}<extra></extra>",
    )


def band(places: pd.Series, low: pd.Series, high: pd.Series, fill: str, label: str) -> go.Scatter:
    """An area without outline, hover text or entry in the legend.

    Args:
        places: Where it is known along the x axis, ascending.
        low: Its lower end at each place.
        high: Its upper end at each place.
        fill: The colour, with its opacity.
        label: Name of the line that it belongs to: both are shown and hidden together.
    """
    return go.Scatter(
        x=[*places, *places[::-1]],
        y=[*high, *low[::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=fill,
        name=label,
        legendgroup=label,
        showlegend=False,
        hoverinfo="skip",
    )
