import math

import pytest

from hvdprof.figures.host_links import KINDS, connection_kinds, transport_matrix
from hvdprof.figures.nccl_graph import ring_graph, tree_graph
from hvdprof.figures.palette import TRANSPORT_COLOURS
from hvdprof.model.tables.nccl_tables import (
    NCCL_CHANNELS,
    NCCL_CONNECTIONS,
    NCCL_RANKS,
    NCCL_RINGS,
    NCCL_TREES,
)

SAID = {"communicator": 0, "channel": 0, "host": "h", "pid": 1, "file": "f", "line": 1}


def connection(source, destination, transport="P2P", network="", gpudirect=False, **values):
    row = {
        **SAID,
        "slot": 0,
        "source": source,
        "destination": destination,
        "source_device": "",
        "destination_device": "",
        "direction": "",
        "transport": transport,
        "network": network,
        "nic": None,
        "gpudirect": gpudirect,
        "via": "",
    }
    return row | values


def connections(*rows):
    return NCCL_CONNECTIONS.frame(list(rows)) if rows else NCCL_CONNECTIONS.empty()


def tree_row(rank, up, *down):
    below = [*down, -1, -1, -1]
    names = ("down_0", "down_1", "down_2")
    return {
        **SAID,
        "direction": "both",
        "rank": rank,
        "up": up,
        **dict(zip(names, below, strict=False)),
    }


def ring_of(rings=(), order=None, linked=(), num_ranks=None):
    channels = [{**SAID, "num_channels": 1, "order": order}] if order else []
    return ring_graph(
        NCCL_RINGS.frame(list(rings)) if rings else NCCL_RINGS.empty(),
        NCCL_CHANNELS.frame(channels) if channels else NCCL_CHANNELS.empty(),
        connections(*linked),
        NCCL_RANKS.empty(),
        0,
        num_ranks,
    )


def tree_of(*rows):
    return tree_graph(NCCL_TREES.frame(list(rows)), connections(), NCCL_RANKS.empty(), 0)


def ranks_of(figure):
    """Where each rank stands."""
    marks = figure.data[-1]
    numbers = [int(text.split()[1]) for text in marks.hovertext]
    return dict(zip(numbers, zip(marks.x, marks.y, strict=True), strict=True))


def edges_of(trace):
    points = list(zip(trace.x, trace.y, strict=True))
    return [(points[at], points[at + 1]) for at in range(0, len(points), 3)]


def test_kinds_of_connections_from_best_to_slowest():
    table = connections(
        connection(0, 1),
        connection(0, 1, "SHM"),
        connection(0, 1, "NET", "IB", gpudirect=True),
        connection(0, 1, "NET", "IB"),
        connection(0, 1, "NET", "Socket"),
    )
    assert connection_kinds(table).tolist() == [1, 2, 3, 4, 5]
    assert len(KINDS) == len(TRANSPORT_COLOURS) == 6


def test_a_pair_shows_its_slowest_channel():
    table = connections(connection(0, 1), connection(0, 1, "SHM", channel=1), connection(1, 0))
    figure = transport_matrix(table)
    assert figure.data[0].z.tolist() == [[0, 2], [1, 0]]
    assert [trace.name for trace in figure.data[1:]] == list(KINDS[:3])


def test_a_collnet_connection_has_no_receiver():
    figure = transport_matrix(connections(connection(0, None, "COLLNET")))
    assert "no connection" in figure.layout.annotations[0].text


def test_ranks_stand_in_ring_order_and_lines_have_the_colour_of_the_connection():
    rings = [
        {**SAID, "rank": rank, "previous": before, "next": after}
        for before, rank, after in ((1, 0, 2), (0, 2, 1), (2, 1, 0))
    ]
    figure = ring_of(rings, linked=[connection(0, 2, "SHM")])
    places = ranks_of(figure)
    assert list(places) == [0, 2, 1]
    assert places[0] == pytest.approx((0, 1))
    shared = next(trace for trace in figure.data if trace.name == KINDS[2])
    assert edges_of(shared) == [(places[0], places[2])]
    assert shared.line.color == TRANSPORT_COLOURS[2]


def test_without_ring_lines_the_channel_gives_the_order():
    assert list(ranks_of(ring_of(order="0 3 1 2"))) == [0, 3, 1, 2]


def test_without_a_ring_connections_are_drawn_and_an_empty_graph_has_a_note():
    assert list(ranks_of(ring_of(linked=[connection(0, 1), connection(1, 0)]))) == [0, 1]
    assert "no ring" in ring_of().layout.annotations[0].text


def test_a_tree_stands_on_levels_with_parents_over_the_middle():
    places = ranks_of(tree_of(tree_row(0, -1, 1, 2), tree_row(1, 0), tree_row(2, 0)))
    assert places[0] == (0.5, 0)
    assert places[1] == (0, -1)
    assert places[2] == (1, -1)


def test_what_only_the_parent_says_counts_too():
    figure = tree_of(tree_row(0, -1, 5))
    assert ranks_of(figure)[5] == (0, -1)
    assert len(edges_of(figure.data[0])) == 1


@pytest.mark.heavy
def test_a_circle_and_a_long_chain_end():
    assert len(ranks_of(tree_of(tree_row(0, 1), tree_row(1, 0)))) == 2
    chain = [tree_row(0, -1), *(tree_row(rank, rank - 1) for rank in range(1, 3000))]
    marks = tree_of(*chain).data[-1]
    assert min(marks.y) == -2999
    assert not any(math.isnan(x) for x in marks.x)
    assert marks.text is None


def test_hosts_stay_text():
    ranks = NCCL_RANKS.frame(
        [
            {
                **{key: SAID[key] for key in ("communicator", "pid", "file", "line")},
                "rank": 0,
                "num_ranks": 2,
                "host": "<b>node</b>",
                "tag_rank": None,
                "cuda_device": None,
                "nvml_device": None,
                "bus_id": "",
                "num_nodes": None,
                "num_local_ranks": None,
                "num_coll_channels": None,
                "num_p2p_channels": None,
                "started": True,
                "complete": True,
                "end": "",
                "end_line": None,
                "channels_line": None,
            }
        ]
    )
    figure = tree_graph(NCCL_TREES.frame([tree_row(0, -1)]), connections(), ranks, 0)
    assert figure.data[-1].hovertext == ("rank 0 on &lt;b&gt;node&lt;/b&gt;",)


@pytest.mark.parametrize(("num_ranks", "lines"), [(4, 4), (None, 4), (64, 3)])
def test_the_beginning_of_an_order_is_no_closed_ring(num_ranks, lines):
    figure = ring_of(order="0 1 2 3", num_ranks=num_ranks)
    assert sum(x is not None and x != x for x in figure.data[0].x) == lines
    said = [one.text for one in figure.layout.annotations]
    assert said == (["4 of 64 ranks in the log"] if num_ranks == 64 else [])


def test_a_ring_whose_ranks_are_not_all_in_the_log_says_so():
    rings = [{**SAID, "rank": 0, "previous": 9, "next": 1}]
    assert ring_of(rings, num_ranks=64).layout.annotations[0].text == "2 of 64 ranks in the log"
