"""Lines on the shape of a communicator: channel orders, rings, trees, links, search results."""

import re

from hvdprof.ingest.nccl.communicators import member_of_pointer
from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Message

_CHAIN = re.compile(r"^([-\d/]{1,30}?)->(-?\d{1,7})->([-\d/]{1,30})$")
_CUT_AT = 1023
"""Characters of a line that NCCL itself may have cut: 64 trees are longer."""
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
    num_lost = said.text.count("[") - len(printed)
    return bool(trees) and (not num_lost or (num_lost == 1 and len(said.raw) >= _CUT_AT))


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


_END = r"(\d{1,7})(?:\[([0-9a-f]{1,16})\])?"
_CONNECTION = re.compile(
    rf"^(?:Channel|Ring|CollNet) (\d{{1,4}})(?:/(\d{{1,4}}))? : {_END}(?: -> {_END})?"
    r"(?: \[(send|receive)\])? via (\S.*)$"
)
# Behind it may stand the rest of a line that another process was writing.
_NETWORK = re.compile(r"^(NET|COLLNET)/([A-Za-z][\w .-]{0,40})/(\d{1,4})((?:[/(][\w()]*)*)")
_WITHIN_HOST = re.compile(
    r"^(?:(P2P)/\w+(?:[ /][\w/]+)?(?:\[\w+\]$)?|(SHM)(?:/\w+)*|(direct shared memory))"
)

# RCCL.
_COMMUNICATOR = re.compile(r" comm (0x[0-9a-f]{1,16}) nRanks 0*(\d{1,7})$")

Transport = tuple[str, str, int | None, bool]
"""Kind, network (empty within a host), its interface (None within a host), and GPUDirect."""


def read_transport(via: str) -> tuple[Transport, str] | None:
    """The parts of what stands after `via`, and its text; ``None`` where the head is not known.

    A cut line of another process behind it is left out. It may begin with digits: then the
    interface is not known.
    """
    found = _NETWORK.match(via)
    if found is not None:
        is_whole = found.end() == len(via) or bool(found[4])
        interface = int(found[3]) if is_whole else None
        return (found[1], found[2], interface, "GDRDMA" in found[4]), found[0]
    within = _WITHIN_HOST.match(via)
    if within is None:
        return None
    return ("P2P" if within[1] else "SHM", "", None, False), within[0]


def _of_communicator(log: Logbook, said: Message, found: re.Match[str]) -> None:
    """RCCL names the communicator at the end; the speaker receives, or it is the source."""
    named = _COMMUNICATOR.search(said.text)
    if named is None:
        return
    member = member_of_pointer(log, said, named[1], int(named[2]))
    speaker = found[5] if found[7] == "receive" else found[3]
    if member.rank is None and speaker is not None:
        member.rank = int(speaker)


def read_connection(log: Logbook, said: Message) -> bool:
    """`Channel 00/0 : 4[0] -> 5[1] [send] via NET/IB/0/GDRDMA` of all versions."""
    plain, _, rccl = said.text.partition(" comm ")
    found = _CONNECTION.match(plain)
    read = None if found is None else read_transport(found[8].strip())
    if found is None or read is None:
        return False
    channel, slot, source, source_id, target, target_id, direction, _ = found.groups()
    transport, via = read
    if rccl:
        _of_communicator(log, said, found)
    log.progressed(said)
    if (said.process, via) not in log.quoted_vias:
        log.quoted_vias.add((said.process, via))
        log.quote(said)
    log.add(
        "nccl_connections",
        said,
        log.context(said),
        int(channel),
        None if slot is None else int(slot),
        int(source),
        None if target is None else int(target),
        source_id or "",
        target_id or "",
        direction or "",
        *transport,
        via,
    )
    return True
