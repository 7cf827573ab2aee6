"""The area between two lines, such as the ends of intervals."""

import pandas as pd
import plotly.graph_objects as go


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
