"""A plotly figure as it stands on every page."""

import plotly.graph_objects as go
from dash import dcc

_CONFIG: dcc.Graph.Config = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}


def figure_graph(figure: go.Figure, label: str) -> dcc.Graph:
    """The figure in the width of its place; ``label`` names it for screen readers."""
    return dcc.Graph(figure=figure, config=_CONFIG, className=f"figure {label}")
