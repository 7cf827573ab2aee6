"""Pairs of ranks and hosts: bandwidth between hosts, and the transport that NCCL uses."""

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.figures.palette import (
    LINE_COLOURS,
    TRANSPORT_COLOURS,
    empty_figure,
    log_axis,
    plain,
    say,
)
from hvdprof.model.arrays import FrameRow

_OVER = {
    "tcp": "TCP, one way",
    "broadcast": "through Horovod, one way",
    "allreduce": "allreduce of all hosts",
}
_ENDS = ("", "_low", "_high")
_MOST_PAIRS = 15
_ROW_HEIGHT = 36
_ROOM = 150
_SQUARE_HEIGHT = 520
_MOST_NAMES = 24
_MOST_TIMES = 12
_LABEL_CHARACTERS = 30

KINDS: tuple[str, ...] = (
    *("not connected", "direct between GPUs (P2P)", "through host memory (SHM)"),
    *("network with GPUDirect RDMA", "network without GPUDirect RDMA", "network by sockets"),
)
"""Kinds of connections: none, then from fastest to slowest; colours are in the palette."""

_P2P, _SHM, _DIRECT, _STAGED, _SOCKET = range(1, len(KINDS))
_MOST_RANKS = 512


def net_bandwidths(links: pd.DataFrame) -> go.Figure:
    """Bandwidth of every pair of hosts with its 95 % interval, and of the allreduce of all.

    Above 15 pairs a matrix is drawn instead, of TCP alone where measured.

    Args:
        links: NET_LINKS.
    """
    figure = empty_figure()
    known = links[links["bandwidth_gb_per_s"].notna().to_numpy()]
    if known.empty:
        return say(figure, "No bandwidth between hosts was measured in this run.")
    pairs = known[known["method"] != "allreduce"]
    for method in dict.fromkeys(pairs["method"].astype(str)):
        of_method = pairs[pairs["method"] == method]
        if len(of_method) > _MOST_PAIRS:
            return _square(figure, of_method, method)
    return _points(figure, known)


def _points(figure: go.Figure, links: pd.DataFrame) -> go.Figure:
    rows = links.assign(place=[_place(row) for row in links.to_dict("records")])
    places = list(dict.fromkeys(rows["place"]))
    figure.update_layout(height=_ROOM + _ROW_HEIGHT * max(len(places), 3))
    for number, (method, of_method) in enumerate(rows.groupby("method", observed=True, sort=False)):
        speeds = of_method["bandwidth_gb_per_s"] * 1000
        high, low = (of_method[f"bandwidth_{end}_gb_per_s"] * 1000 for end in ("high", "low"))
        figure.add_trace(
            go.Scatter(
                x=speeds,
                y=of_method["place"],
                mode="markers",
                orientation="h",
                # Methods of a pair are drawn side by side; the allreduce has its own line.
                offsetgroup="" if method == "allreduce" else str(method),
                name=_OVER.get(str(method), plain(method)),
                marker={
                    "size": 9,
                    "color": LINE_COLOURS[number],
                    # Hollow where the interval has no upper end.
                    "symbol": ["circle-open" if is_open else "circle" for is_open in high.isna()],
                },
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": (high - speeds).fillna(0),
                    "arrayminus": (speeds - low).fillna(0),
                    "thickness": 1.5,
                    "width": 4,
                },
                hovertext=[_hover_text(row) for row in of_method.to_dict("records")],
                hoverinfo="text",
            )
        )
    drawn = [f"bandwidth{end}_gb_per_s" for end in ("", "_low", "_high")]
    values = 1000 * rows[drawn].to_numpy(dtype=np.float64).ravel()
    figure.update_xaxes(title_text="bandwidth, MB/s", **_speed_axis(values[np.isfinite(values)]))
    figure.update_yaxes(categoryorder="array", categoryarray=places[::-1], ticks="")
    # Methods with the same bandwidth would hide each other on one line.
    figure.update_layout(showlegend=True, scattermode="group", scattergap=0.5)
    return figure


def _speed_axis(speeds: NDArray[np.float64]) -> dict[str, Any]:
    """A linear axis from 0; a log axis where the slowest would not be visible beside the others."""
    if speeds.max() > _MOST_TIMES * speeds.min():
        return log_axis(speeds)
    return {"rangemode": "tozero"}


def _square(figure: go.Figure, links: pd.DataFrame, method: str) -> go.Figure:
    names = links.astype({"from_host": str, "to_host": str})
    hosts = sorted({*names["from_host"], *names["to_host"]})
    order = {host: number for number, host in enumerate(hosts)}
    first = names["from_host"].map(order).to_numpy()
    second = names["to_host"].map(order).to_numpy()
    speeds = np.full((len(hosts), len(hosts)), np.nan)
    texts = np.full(speeds.shape, "", dtype=object)
    hover_texts = [_hover_text(row) for row in links.to_dict("records")]
    for one, other in ((first, second), (second, first)):
        speeds[one, other] = 1000 * links["bandwidth_gb_per_s"].to_numpy(dtype=np.float64)
        texts[one, other] = hover_texts
    labels = [plain(host, _LABEL_CHARACTERS) for host in hosts]
    figure.add_trace(
        go.Heatmap(
            z=speeds,
            colorscale="Cividis",
            colorbar={"title": {"text": "MB/s"}},
            hovertext=texts,
            hoverinfo="text",
        )
    )
    figure.update_layout(height=_SQUARE_HEIGHT)
    # Names that would overlap are shown by the cells alone.
    named = {"tickvals": list(range(len(hosts))), "ticktext": labels, "ticks": ""}
    ticks = named if len(hosts) <= _MOST_NAMES else {"showticklabels": False}
    figure.update_xaxes(title_text=f"{_OVER.get(method, plain(method))}, MB/s", **ticks)
    figure.update_yaxes(autorange="reversed", **ticks)
    return figure


def _place(row: FrameRow) -> str:
    if str(row["method"]) == "allreduce":
        return f"all {units.count(row['np'])} hosts"
    # The one-way time does not depend on which host sends.
    ends = sorted((str(row["from_host"]), str(row["to_host"])))
    return " - ".join(plain(end, _LABEL_CHARACTERS) for end in ends)


def _hover_text(row: FrameRow) -> str:
    speed, low, high = (1000 * float(row[f"bandwidth{end}_gb_per_s"]) for end in _ENDS)
    latency, soonest, latest = (float(row[f"latency{end}_ns"]) for end in _ENDS)
    over = _OVER.get(str(row["method"]), plain(row["method"]))
    return (
        f"<b>{_place(row)}</b>, {over}<br>"
        f"{units.interval_of_unit(speed, low, high, 'MB/s')}<br>"
        f"{units.interval_of_unit(latency, soonest, latest, 'ns')} for the smallest message"
    )


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
