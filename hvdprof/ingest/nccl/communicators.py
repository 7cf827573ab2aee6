"""Lines on the life of a communicator: init, its times, its shape, channel counts, its end."""

import re

from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Member, Message

_PAIRS = re.compile(
    r"\b(rank|nranks|nRanks|cudaDev|nvmlDev|busId|commId|nNodes|localRanks) (\w{1,18})\b"
)
_COMM = re.compile(
    r"^(?:\[Rank \d{1,7}\] )?(?:ncclComm\w+ )?comm (0x[0-9a-f]{1,16}) (?=rank )(.*)$"
)
_PART = re.compile(r"(\w+) (\d{1,9}\.\d+)")
_MOST_RANKS = 1_000_000
_BEGINNINGS_OF_ENDS = ("Abort START", "Revoke START")
_ENDS = {"Destroy COMPLETE": "destroyed", "Abort COMPLETE": "aborted"}


def read_comm(log: Logbook, said: Message) -> bool:
    """Init START and COMPLETE, the shape line, Destroy and Abort COMPLETE."""
    found = _COMM.match(said.text)
    if found is None:
        return False
    pointer, pairs = found[1], dict(_PAIRS.findall(found[2]))
    # Of a split communicator 2.28 prints `key 0- Init START`.
    _, dash, ending = found[2].rpartition("- ")
    if not dash:
        return _shape(log, said, pointer, pairs)
    if ending in _ENDS:
        member_of_end = log.members[_present(log, said, pointer, pairs)]
        member_of_end.end = _ENDS[ending]
        if said.file == member_of_end.file:
            member_of_end.end_line = said.line
            log.quote(said)
        return True
    if ending in _BEGINNINGS_OF_ENDS:
        return True
    if ending not in ("Init START", "Init COMPLETE") or not _has_ranks(pairs):
        return False
    if ending == "Init START":
        member = _new(log, said, pointer, pairs)
        log.members[member].started = True
        log.begin(said, member)
    else:
        member = _open(log, said, pointer, pairs)
        _complete(log, said, member, pairs)
        log.members[member].announced = False
    return True


def read_returned_init(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> bool:
    """An init that a CALL line reports; NCCL prints it before Init COMPLETE.

    Args:
        log: Gets the rank.
        said: The line.
        pointer: The new communicator.
        pairs: Its rank, nranks, and where printed commId and cudaDev, as Init COMPLETE names them.
    """
    if not _has_ranks(pairs):
        return False
    member = _open(log, said, pointer, pairs)
    if log.members[member].complete:
        member = _new(log, said, pointer, pairs)
    _complete(log, said, member, pairs)
    log.members[member].announced = True
    return True


def _complete(log: Logbook, said: Message, index: int, pairs: dict[str, str]) -> None:
    member = log.members[index]
    _fill(member, pairs)
    if not member.complete:
        member.complete = True
        member.complete_order = log.num_completed
        log.num_completed += 1
    counts = log.counts.pop((said.process, said.tid), None)
    if counts is not None and member.num_coll_channels is None:
        member.num_coll_channels, member.num_p2p_channels, member.channels_line = counts
    log.finish(said, index)
    log.progressed(said)


def _shape(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> bool:
    if "nNodes" not in pairs:
        return _announcement(log, said, pointer, pairs)
    member = log.members[_present(log, said, pointer, pairs)]
    member.num_nodes = _whole(pairs["nNodes"])
    member.num_local_ranks = _whole(pairs.get("localRanks", ""))
    return True


def _announcement(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> bool:
    """`comm 0x7f67 rank 5 nranks 8` of 2.2 and 2.3, which print nothing more of an init."""
    is_whole = said.text.endswith(f"nranks {pairs.get('nranks')}")
    if not _has_ranks(pairs) or pairs.keys() != {"rank", "nranks"} or not is_whole:
        return False
    log.announcements.append((said, pointer, pairs))
    return not _is_later(log)


def add_announced(log: Logbook) -> None:
    """The ranks of 2.2 and 2.3, once the whole log is read.

    In a log of a later version such a line is the beginning of a cut one, and its size may be cut.
    """
    for said, pointer, pairs in () if _is_later(log) else log.announcements:
        _present(log, said, pointer, pairs)


def _is_later(log: Logbook) -> bool:
    return any(member.cuda_device is not None for member in log.members)


@reads(r"^Init timings(?::| - \w+:) rank (\d{1,7}) nranks (\d{1,7}) total (\d{1,9}\.\d+) \((.*)\)")
def read_timings(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`Init timings: rank R nranks N total S (part S, ...)`, in seconds."""
    rank, num_ranks = int(match[1]), int(match[2])
    context = log.context(said)
    for index in reversed(log.processes[said.process].members):
        member = log.members[index]
        if (member.rank, member.num_ranks) == (rank, num_ranks):
            context = member.context
            break
    _add_timings(log, said, (context, rank, "init"), match[3], match[4])


@reads(r"^Bootstrap timings total (\d{1,9}\.\d+) \((.*)\)")
def read_bootstrap_timings(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`Bootstrap timings total S (create S, send S, ...)`, in seconds."""
    owner = log.owner(said)
    rank = None if owner is None else owner.rank
    _add_timings(log, said, (log.context(said), rank, "bootstrap"), match[1], match[2])


def _add_timings(
    log: Logbook, said: Message, stage: tuple[int, int | None, str], total: str, parts: str
) -> None:
    for part, seconds in [("total", total), *_PART.findall(parts)]:
        time_ns = round(float(seconds) * 1e9)
        log.rows["nccl_init_timings"].append(*stage, part, time_ns, said.file, said.line)


@reads(
    r"^(\d{1,4}) coll channels,(?: \d{1,4} collnet channels,)?(?: \d{1,4} nvls channels,)? "
    r"(\d{1,4}) p2p channels, \d{1,4} p2p channels per peer$"
)
def read_channel_counts(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`4 coll channels, 4 p2p channels, 1 p2p channels per peer` in all its lengths."""
    owner = log.owner(said)
    counts = int(match[1]), int(match[2]), said.line
    log.quote(said)
    if owner is None:
        log.counts[said.process, said.tid] = counts
    else:
        owner.num_coll_channels, owner.num_p2p_channels, owner.channels_line = counts


def _has_ranks(pairs: dict[str, str]) -> bool:
    """A rank within a size that a job can have; digits of two writers may have run together."""
    rank, num_ranks = _whole(pairs.get("rank", "")), _whole(pairs.get("nranks", ""))
    return rank is not None and num_ranks is not None and rank < num_ranks <= _MOST_RANKS


def _open(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> int:
    """The rank that this Init COMPLETE completes, which may be one not seen before."""
    index = log.processes[said.process].by_pointer.get(pointer)
    if index is None:
        return _new(log, said, pointer, pairs)
    member = log.members[index]
    same = (member.rank, member.num_ranks) == (_whole(pairs["rank"]), _whole(pairs["nranks"]))
    # Before 2.16 only CALL lines have the id.
    same = same and ("commId" not in pairs or member.comm_id in ("", pairs["commId"]))
    fresh = (not member.complete or member.announced) and not member.end
    return index if same and fresh else _new(log, said, pointer, pairs)


def _present(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> int:
    """The rank of a pointer; one not seen before where the log began after its init."""
    index = log.processes[said.process].by_pointer.get(pointer)
    if index is None:
        return _new(log, said, pointer, pairs)
    if log.members[index].rank is None:
        log.members[index].rank = _whole(pairs.get("rank", ""))
    return index


def _new(log: Logbook, said: Message, pointer: str, pairs: dict[str, str]) -> int:
    rank = _whole(pairs.get("rank", ""))
    num_ranks = _whole(pairs.get("nranks", pairs.get("nRanks", "")))
    member = Member(said.process, pointer, rank, num_ranks, said.file, said.line)
    _fill(member, pairs)
    log.quote(said)
    return log.add_member(member)


def member_of_pointer(log: Logbook, said: Message, pointer: str, num_ranks: int | None) -> Member:
    """The rank that a collective call names by its communicator's pointer."""
    index = log.processes[said.process].by_pointer.get(pointer)
    if index is None:
        log.quote(said)
        fresh = Member(said.process, pointer, None, num_ranks, said.file, said.line)
        index = log.add_member(fresh)
    return log.members[index]


def _fill(member: Member, pairs: dict[str, str]) -> None:
    member.comm_id = pairs.get("commId", member.comm_id)
    member.bus_id = pairs.get("busId", member.bus_id)
    if "cudaDev" in pairs:
        member.cuda_device = _whole(pairs["cudaDev"])
    if "nvmlDev" in pairs:
        member.nvml_device = _whole(pairs["nvmlDev"])


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
