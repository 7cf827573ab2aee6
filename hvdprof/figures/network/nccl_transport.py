"""NCCL transport of each pair of ranks, as a matrix coloured from fastest to slowest."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof.figures.style.palette import TRANSPORT_COLOURS, empty_figure, say

KINDS: tuple[str, ...] = (
    "not connected",
    "direct between GPUs (P2P)",
    "through host memory (SHM)",
    "network with GPUDirect RDMA",
    "network without GPUDirect RDMA",
    "network by sockets",
)
"""Kinds of connections: none, then from fastest to slowest; colours are in the palette."""

_P2P, _SHM, _DIRECT, _STAGED, _SOCKET = range(1, len(KINDS))
_MOST_RANKS = 512


def connection_kinds(connections: pd.DataFrame) -> NDArray[np.int8]:
    """The place in ``KINDS`` of each row of NCCL_CONNECTIONS."""
    transport = connections["transport"].astype(str)
    conditions = [
        (transport == "P2P"),
        (transport == "SHM"),
        connections["network"].astype(str).str.lower() == "socket",
        connections["gpudirect"].astype(bool),
    ]
    kinds = np.select(
        [condition.to_numpy(dtype=bool) for condition in conditions],
        [_P2P, _SHM, _SOCKET, _DIRECT],
        default=_STAGED,
    )
    return np.asarray(kinds, dtype=np.int8)


def transport_matrix(connections: pd.DataFrame) -> go.Figure:
    """Sending ranks by receiving ranks; a pair with several channels shows the slowest kind.

    Above 512 ranks the first 512 are shown, and the axis says so.

    Args:
        connections: Rows of NCCL_CONNECTIONS of one communicator.
    """
    figure = empty_figure(480)
    pairs = connections[connections["destination"].notna().to_numpy()]
    if pairs.empty:
        return say(figure, "The logs hold no connection of this communicator.")
    source = pairs["source"].to_numpy(dtype=np.int64)
    destination = pairs["destination"].to_numpy(dtype=np.int64)
    num_ranks = int(max(source.max(), destination.max())) + 1
    shown = min(num_ranks, _MOST_RANKS)
    matrix = np.zeros((num_ranks, num_ranks), dtype=np.int8)
    np.maximum.at(matrix, (source, destination), connection_kinds(pairs))
    figure.add_trace(_cells(matrix[:shown, :shown]))
    for kind in np.unique(matrix[:shown, :shown]):
        figure.add_trace(_legend(int(kind)))
    more = f" (the first {shown} of {num_ranks})" * (shown < num_ranks)
    figure.update_xaxes(title_text=f"receiving rank{more}", showgrid=False, constrain="domain")
    figure.update_yaxes(
        title_text=f"sending rank{more}", showgrid=False, autorange="reversed", scaleanchor="x"
    )
    if shown <= 16:
        figure.update_xaxes(dtick=1)
        figure.update_yaxes(dtick=1)
    return figure


def _cells(matrix: NDArray[np.int8]) -> go.Heatmap:
    last = len(KINDS) - 1
    steps = [place / (last + 1) for place in range(last + 2)]
    scale = [
        (edge, colour)
        for place, colour in enumerate(TRANSPORT_COLOURS)
        for edge in (steps[place], steps[place + 1])
    ]
    return go.Heatmap(
        z=matrix,  # type: ignore[arg-type]  # The stubs know no small integers.
        colorscale=scale,
        zmin=-0.5,
        zmax=last + 0.5,
        showscale=False,
        xgap=1,
        ygap=1,
        customdata=np.asarray(KINDS, dtype=object)[matrix] if len(matrix) <= 64 else None,
        hovertemplate="rank %{y} to %{x}: %{customdata}<extra></extra>"
        if len(matrix) <= 64
        else "rank %{y} to %{x}: kind %{z}<extra></extra>",
    )


def _legend(kind: int) -> go.Scatter:
    return go.Scatter(
        x=[math.nan],
        y=[math.nan],
        mode="markers",
        name=KINDS[kind],
        marker={
            "symbol": "square",
            "size": 11,
            "color": TRANSPORT_COLOURS[kind],
            "line": {"width": 1, "color": "#888888"},
        },
    )
