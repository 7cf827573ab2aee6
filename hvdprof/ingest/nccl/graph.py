"""Lines on the shape of a communicator: channel orders, rings, trees, links, search results."""

import re

from hvdprof.ingest.nccl.connections import read_connection
from hvdprof.ingest.nccl.logbook import Logbook, Message

_ORDER = re.compile(r"^Channel (\d{1,4})(?:/(\d{1,4}))? :((?:\s+\d{1,7})+)\s*$")
_RING = re.compile(r"^Ring (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})\s*$")
_TREE = re.compile(
    r"^Tree (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})\s*$"
)
_CHAIN = re.compile(r"^([-\d/]{1,30}?)->(-?\d{1,7})->([-\d/]{1,30})$")
_ONE_TREE = re.compile(r"\[(\d{1,4})\] (\S+)")
_LINK = re.compile(r"^\+ ([A-Z0-9]+)\[(\d{1,6}\.\d+)\] - ")
_PATTERN = re.compile(
    r"^Pattern \d+, crossNic \d+, nChannels (\d{1,4}), (?:bw|speed) (\d{1,6}\.\d+)/"
)
_SYSTEM = re.compile(r"^=== System : maxBw (\d{1,6}\.\d+) ")


def read_channel(log: Logbook, said: Message) -> bool:
    """`Channel 00/04 : 0 1 2 3` in ring order, or a connection."""
    found = None if " via " in said.text else _ORDER.match(said.text)
    if found is None:
        return read_connection(log, said)
    count = None if found[2] is None else int(found[2])
    order = " ".join(found[3].split())
    log.rows["nccl_channels"].append(
        log.context(said), int(found[1]), count, order, *log.speaker(said)
    )
    return True


def read_ring(log: Logbook, said: Message) -> bool:
    """`Ring 00 : 1 -> 0 -> 1`: before, me, after; up to 2.4 `Ring` begins a connection."""
    found = _RING.match(said.text)
    if found is None:
        return read_connection(log, said)
    channel, *ranks = (int(text) for text in found.groups())
    log.rows["nccl_rings"].append(log.context(said), channel, *ranks, *log.speaker(said))
    return True


def read_tree(log: Logbook, said: Message) -> bool:
    """`Tree 0 : -1 -> 0 -> 1/-1/-1`: up, me, down."""
    found = _TREE.match(said.text)
    if found is None:
        return False
    channel, up, rank, *down = (int(text) for text in found.groups())
    log.rows["nccl_trees"].append(
        log.context(said), channel, "both", rank, up, *down, *log.speaker(said)
    )
    return True


def read_trees(log: Logbook, said: Message) -> bool:
    """`Trees [0] 1/-1/-1->0->-1 ...`, its mirror image of 2.4, and the two trees of 2.5 to 2.8."""
    told = _ONE_TREE.findall(said.text)
    trees = [(int(channel), *tree) for channel, text in told for tree in _directions(text)]
    for channel, direction, (rank, up, *down) in trees:
        log.rows["nccl_trees"].append(
            log.context(said), channel, direction, rank, up, *down, *log.speaker(said)
        )
    return bool(trees) and len(told) == said.text.count("[")


def _directions(text: str) -> list[tuple[str, tuple[int, ...]]]:
    halves = text.split("|")
    names = ("both",) if len(halves) == 1 else ("reduce", "broadcast")
    chains = [_chain(half) for half in halves]
    if len(halves) > 2:
        return []
    return [(name, chain) for name, chain in zip(names, chains, strict=True) if chain]


def _chain(text: str) -> tuple[int, ...]:
    """Rank, up and three downs; which side is up is told by the slashes of the other."""
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


def read_link(log: Logbook, said: Message) -> bool:
    """`+ NVL[240.0] - GPU/0-65000` of the topology that NCCL prints."""
    found = _LINK.match(said.text.lstrip())
    if found is None:
        return False
    _keep(log, said, found[1], (float(found[2]), None))
    return True


def read_pattern(log: Logbook, said: Message) -> bool:
    """`Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, ...`."""
    found = _PATTERN.match(said.text)
    if found is None:
        return False
    _keep(log, said, "pattern", (float(found[2]), int(found[1])))
    return True


def read_system(log: Logbook, said: Message) -> bool:
    """`=== System : maxBw 24.0 totalBw 24.0 ===`, and the line of `=` that ends the block."""
    found = _SYSTEM.match(said.text)
    if found is not None:
        _keep(log, said, "system", (float(found[1]), None))
    return found is not None or not said.text.strip("=")


def _keep(log: Logbook, said: Message, kind: str, told: tuple[float, int | None]) -> None:
    log.rows["nccl_links"].append(kind, *told, said.text.strip(), *log.speaker(said))
