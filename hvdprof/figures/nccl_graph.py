"""NCCL's rings and trees, drawn as graphs."""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.host_links import KINDS, connection_kinds
from hvdprof.figures.palette import (
    LINE_COLOURS,
    NEUTRAL_COLOUR,
    TRANSPORT_COLOURS,
    empty_figure,
    plain,
    say,
)

_MOST_LABELS = 64
_SIZES = {24: (26, 12), _MOST_LABELS: (17, 9), math.inf: (7, 9)}
_HEIGHT = 480

Places = Mapping[int, tuple[float, float]]
Edges = list[tuple[int, int]]


def ring_graph(
    rings: pd.DataFrame,
    channels: pd.DataFrame,
    connections: pd.DataFrame,
    ranks: pd.DataFrame,
    channel: int,
    num_ranks: int | None = None,
) -> go.Figure:
    """The ring of one channel: ranks on a circle in ring order, edges coloured by connection.

    Without ring lines in the log, the order of the channel gives the ring; without that the
    connections of the channel are drawn, which can include those of its tree.

    Args:
        rings: Rows of NCCL_RINGS of one communicator.
        channels: Its rows of NCCL_CHANNELS.
        connections: Its rows of NCCL_CONNECTIONS.
        ranks: Its rows of NCCL_RANKS, for the hosts.
        channel: Number of the channel.
        num_ranks: Ranks of the communicator where known. With fewer in the logs the ring stays
            open where its order ends, and the figure says so.
    """
    of_channel = rings[(rings["channel"] == channel).to_numpy(dtype=bool)]
    linked = connections[
        (connections["channel"] == channel).to_numpy(dtype=bool)
        & connections["destination"].notna().to_numpy()
    ]
    edges = (
        _pairs(of_channel, "rank", "next")
        or _ordered(channels[(channels["channel"] == channel).to_numpy(dtype=bool)], num_ranks)
        or _pairs(linked, "source", "destination")
    )
    if not edges:
        return say(empty_figure(_HEIGHT), f"The logs hold no ring of channel {channel}.")
    order = _ring_order(edges)
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(order)) / len(order)
    places = {
        rank: (float(np.cos(angle)), float(np.sin(angle)))
        for rank, angle in zip(order, angles, strict=True)
    }
    kinds = _kinds(linked)
    figure = _graph(edges, places, kinds, _hosts(ranks))
    figure.update_yaxes(scaleanchor="x")
    if num_ranks is not None and len(order) < num_ranks:
        text = f"{units.count(len(order))} of {units.count(num_ranks)} ranks in the log"
        figure.add_annotation(text=text, x=0, y=0, showarrow=False)
    return figure


def tree_graph(
    trees: pd.DataFrame, connections: pd.DataFrame, ranks: pd.DataFrame, channel: int
) -> go.Figure:
    """The tree of one channel, its root on top, edges coloured by connection where known.

    Args:
        trees: Rows of NCCL_TREES of one communicator.
        connections: Its rows of NCCL_CONNECTIONS.
        ranks: Its rows of NCCL_RANKS, for the hosts.
        channel: Number of the channel.
    """
    of_channel = trees[(trees["channel"] == channel).to_numpy(dtype=bool)]
    of_channel = of_channel.drop_duplicates("rank")
    if of_channel.empty:
        return say(empty_figure(_HEIGHT), f"The logs hold no tree of channel {channel}.")
    above = _above(of_channel)
    edges = [(up, rank) for rank, up in above.items() if up >= 0]
    linked = connections[connections["destination"].notna().to_numpy()]
    kinds = _kinds(linked)
    kinds |= {(to, of): kind for (of, to), kind in kinds.items() if (to, of) not in kinds}
    return _graph(edges, _tree_places(above), kinds, _hosts(ranks))


def _above(tree: pd.DataFrame) -> dict[int, int]:
    """The rank above each rank, -1 for none, from the lines of either of the two."""
    above = {int(rank): int(up) for rank, up in zip(tree["rank"], tree["up"], strict=True)}
    for down in ("down_0", "down_1", "down_2"):
        for rank, below in zip(tree["rank"], tree[down], strict=True):
            if below >= 0 and above.get(int(below), -1) < 0:
                above[int(below)] = int(rank)
    return above


def _kinds(linked: pd.DataFrame) -> dict[tuple[int, int], np.int8]:
    pairs = _pairs(linked, "source", "destination")
    return dict(zip(pairs, connection_kinds(linked), strict=True))


def _pairs(rows: pd.DataFrame, source: str, destination: str) -> Edges:
    return [(int(of), int(to)) for of, to in zip(rows[source], rows[destination], strict=True)]


def _ordered(channels: pd.DataFrame, num_ranks: int | None) -> Edges:
    """The ring of a channel by the order of its ranks as rank 0 prints it.

    A line that was cut holds the beginning of the order, whose last rank does not close the ring.
    """
    if channels.empty:
        return []
    order = [int(rank) for rank in str(channels["order"].iloc[0]).split()]
    is_whole = num_ranks is None or len(order) >= num_ranks
    return list(pairwise([*order, *order[:1]] if is_whole else order))


def _hosts(ranks: pd.DataFrame) -> dict[int, str]:
    known = ranks[ranks["rank"].notna().to_numpy()]
    return {int(rank): str(host) for rank, host in zip(known["rank"], known["host"], strict=True)}


def _ring_order(edges: Edges) -> list[int]:
    """The ranks along the edges from the smallest; unreached ranks follow by number."""
    follower = dict(edges)
    all_ranks = sorted({rank for edge in edges for rank in edge})
    order, rank = [], all_ranks[0]
    seen: set[int] = set()
    while rank is not None and rank not in seen:
        order.append(rank)
        seen.add(rank)
        rank = follower.get(rank, all_ranks[0])
    return [*order, *(rank for rank in all_ranks if rank not in seen)]


def _tree_places(above: Mapping[int, int]) -> Places:
    """Each rank one level below the one above it, in the middle over those below it."""
    below: dict[int, list[int]] = {}
    for rank, up in sorted(above.items()):
        below.setdefault(up, []).append(rank)
    known = {*above, *(up for up in above.values() if up >= 0)}
    roots = sorted(rank for rank in known if above.get(rank, -1) < 0)
    places: dict[int, tuple[float, float]] = {}
    width = 0
    # A damaged log can hold a cycle without a root: any of its ranks is then the root.
    for root in [*roots, *sorted(known)]:
        if root not in places:
            width = _place_tree(root, below, places, width)
    return places


def _place_tree(
    root: int, below: Mapping[int, list[int]], places: dict[int, tuple[float, float]], width: int
) -> int:
    """Add the ranks of one tree, its leaves side by side from ``width`` on; the new width."""
    depths = {root: 0}
    order = [root]
    for rank in order:
        new = [peer for peer in below.get(rank, []) if peer not in depths and peer not in places]
        depths |= dict.fromkeys(new, depths[rank] + 1)
        order += new
    children = {
        rank: [peer for peer in below.get(rank, []) if depths.get(peer) == depths[rank] + 1]
        for rank in order
    }
    across: dict[int, float] = {}
    stack = [root]
    while stack:
        rank = stack[-1]
        waiting = [child for child in children[rank] if child not in across]
        if waiting:
            stack.append(waiting[0])
            continue
        inner = [across[child] for child in children[rank]]
        across[rank] = float(np.mean(inner)) if inner else float(width)
        width += not inner
        stack.pop()
    places |= {rank: (across[rank], -float(depths[rank])) for rank in order}
    return width


def _graph(
    edges: Edges, places: Places, kinds: Mapping[tuple[int, int], np.int8], hosts: Mapping[int, str]
) -> go.Figure:
    figure = empty_figure(_HEIGHT)
    by_kind: dict[int, Edges] = {}
    for edge in edges:
        by_kind.setdefault(int(kinds.get(edge, 0)), []).append(edge)
    for kind, kind_edges in sorted(by_kind.items()):
        figure.add_trace(_edges(kind_edges, places, kind))
    figure.add_trace(_ranks(places, hosts))
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def _edges(edges: Edges, places: Places, kind: int) -> go.Scatter:
    """Lines with an arrow head near the receiving rank."""
    ends = [[places[of], places[to], (math.nan, math.nan)] for of, to in edges]
    points = [point for line in ends for point in line]
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="lines+markers",
        name=KINDS[kind] if kind else "transport unknown",
        line={"color": TRANSPORT_COLOURS[kind] if kind else NEUTRAL_COLOUR, "width": 2.5},
        marker={"symbol": "arrow", "size": 12, "angleref": "previous", "standoff": 14},
        hoverinfo="skip",
    )


def _ranks(places: Places, hosts: Mapping[int, str]) -> go.Scatter:
    names = sorted(set(hosts.values()))
    colours = {host: LINE_COLOURS[at % len(LINE_COLOURS)] for at, host in enumerate(names)}
    ranks = list(places)
    labelled = len(ranks) <= _MOST_LABELS
    size, letters = next(sizes for most, sizes in _SIZES.items() if len(ranks) <= most)
    return go.Scatter(
        x=[places[rank][0] for rank in ranks],
        y=[places[rank][1] for rank in ranks],
        mode="markers+text" if labelled else "markers",
        text=[str(rank) for rank in ranks] if labelled else None,
        textfont={"color": "#222222", "size": letters},
        marker={
            "size": size,
            "color": "#ffffff",
            "line": {
                "width": 3,
                "color": [
                    colours[hosts[rank]] if rank in hosts else NEUTRAL_COLOUR for rank in ranks
                ],
            },
        },
        showlegend=False,
        hovertext=[
            f"rank {rank}" + (f" on {plain(hosts[rank])}" if rank in hosts else "")
            for rank in ranks
        ],
        hoverinfo="text",
    )
