"""Connection lines: one per channel and direction, with the transport at the end.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

import re

from hvdprof.ingest.nccl.communicators import member_of_pointer
from hvdprof.ingest.nccl.logbook import Logbook, Message

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
