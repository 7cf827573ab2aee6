"""Lines on the shape of a communicator: channel orders, rings, trees, links, search results.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

import re

from hvdprof.ingest.nccl.connections import read_connection
from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Message

_CHAIN = re.compile(r"^([-\d/]{1,30}?)->(-?\d{1,7})->([-\d/]{1,30})$")
_ONE_TREE = re.compile(r"\[(\d{1,4})\] (\S+)")


@reads(r"^Channel (\d{1,4})(?:/(\d{1,4}))? :((?:\s+\d{1,7})+)\s*$")
def _read_order(log: Logbook, said: Message, match: re.Match[str]) -> None:
    count = None if match[2] is None else int(match[2])
    order = " ".join(match[3].split())
    log.add("nccl_channels", said, log.context(said), int(match[1]), count, order)


@reads(r"^Ring (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})\s*$")
def _read_order_of_ring(log: Logbook, said: Message, match: re.Match[str]) -> None:
    log.add("nccl_rings", said, log.context(said), *map(int, match.groups()))


def read_channel(log: Logbook, said: Message) -> bool:
    """`Channel 00/04 : 0 1 2 3` in ring order, or a connection."""
    is_order = " via " not in said.text and _read_order(log, said)
    return is_order or read_connection(log, said)


def read_ring(log: Logbook, said: Message) -> bool:
    """`Ring 00 : 1 -> 0 -> 1`: before, me, after; up to 2.4 `Ring` begins a connection."""
    return _read_order_of_ring(log, said) or read_connection(log, said)


@reads(r"^Tree (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})\s*$")
def read_tree(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`Tree 0 : -1 -> 0 -> 1/-1/-1`: up, me, down."""
    channel, up, rank, *down = (int(text) for text in match.groups())
    log.add("nccl_trees", said, log.context(said), channel, "both", rank, up, *down)


def read_trees(log: Logbook, said: Message) -> bool:
    """`Trees [0] 1/-1/-1->0->-1 ...`, its mirror image of 2.4, and the two trees of 2.5 to 2.8."""
    printed = _ONE_TREE.findall(said.text)
    trees = [(int(channel), *tree) for channel, text in printed for tree in _directions(text)]
    for channel, direction, ranks in trees:
        log.add("nccl_trees", said, log.context(said), channel, direction, *ranks)
    return bool(trees) and len(printed) == said.text.count("[")


def _directions(text: str) -> list[tuple[str, tuple[int, ...]]]:
    halves = text.split("|")
    if len(halves) > 2:
        return []
    names = ("both",) if len(halves) == 1 else ("reduce", "broadcast")
    chains = zip(names, map(_chain, halves), strict=True)
    return [(name, chain) for name, chain in chains if chain]


def _chain(text: str) -> tuple[int, ...]:
    """Rank, up and three downs; the side that has slashes is down."""
    found = _CHAIN.match(text)
    if found is None:
        return ()
    left, rank, right = found.groups()
    up, down = (left, right) if "/" in right else (right, left)
    try:
        numbers = tuple(int(number) for number in (rank, up, *down.split("/")))
    except ValueError:
        return ()
    return numbers if len(numbers) == 5 else ()


@reads(r"^\s*\+ ([A-Z0-9]+)\[(\d{1,6}\.\d+)\] - ")
def read_link(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`+ NVL[240.0] - GPU/0-65000` of the topology that NCCL prints."""
    _add_link(log, said, match[1], float(match[2]))


@reads(r"^Pattern \d+, crossNic \d+, nChannels (\d{1,4}), (?:bw|speed) (\d{1,6}\.\d+)/")
def read_pattern(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, ...`."""
    _add_link(log, said, "pattern", float(match[2]), int(match[1]))


@reads(r"^=== System : maxBw (\d{1,6}\.\d+) ")
def _read_total(log: Logbook, said: Message, match: re.Match[str]) -> None:
    _add_link(log, said, "system", float(match[1]))


def read_system(log: Logbook, said: Message) -> bool:
    """`=== System : maxBw 24.0 totalBw 24.0 ===`, and the line of `=` that ends the block."""
    return _read_total(log, said) or not said.text.strip("=")


def _add_link(
    log: Logbook, said: Message, kind: str, bandwidth: float, channels: int | None = None
) -> None:
    log.add("nccl_links", said, kind, bandwidth, channels, said.text.strip())
