"""The SQLite file of an export, and what NCCL states there of each call: bytes, communicator, rank.

``NVTX_PAYLOAD_SCHEMA_ENTRIES`` says where each value lies in a payload. The payload itself is
``binaryData`` of the range, which ``nsys export`` writes with ``--include-blobs true`` alone: four
little-endian words of 8 bytes (domain, schema, length of the payload, and one that is not used
here), then the payload. A call states its communicator, and the rank in it stands in the payload of
the call that made the communicator.
"""

import re
import sqlite3
import struct
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.regular_file import shown_name

_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_HEADER = struct.Struct("<QQQQ")
# NVTX_PAYLOAD_ENTRY_TYPE_*: the C types, those of a stated size, and size_t.
_TYPES = {
    1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q",
    11: "b", 12: "B", 13: "h", 14: "H", 15: "i", 16: "I", 17: "q", 18: "Q", 22: "Q",
}  # fmt: skip
_COMMUNICATOR, _BYTES = "NCCL communicator ID", "Message size [bytes]"
_RANK, _NUM_RANKS, _DEVICE = "Rank", "No. of ranks", "CUDA device"
_MOVES_DATA = re.compile(r"nccl(?!Group|Comm|Get|Mem|Redop|RedOp)[A-Z]\w*")
_PER_RANK = ("ncclAllGather", "ncclReduceScatter")
_LARGEST = 2**62
_MOST_RANKS = 2**31

Layout = Mapping[str, tuple[int, struct.Struct]]

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RANGES = "NVTX_EVENTS"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
STRINGS = "StringIds"
PUSH_POP_RANGES = (59, 70)
"""``eventType`` of ranges that nest on one thread; the second is that of NVTXT files."""
DOMAIN_CREATED = 75
"""``eventType`` of a row that names an NVTX domain."""


@dataclass(frozen=True, slots=True)
class Membership:
    """A rank's place in a communicator; ``device`` is the GPU as the process numbers it."""

    rank: int
    num_ranks: int
    device: int | None


@dataclass(frozen=True, slots=True)
class NcclCalls:
    """Calls of one function that are alike; what an export does not state is None or empty."""

    pid: int
    function: str
    communicator: str
    member: Membership | None
    message_bytes: int | None
    number: int

    @property
    def size_bytes(self) -> int | None:
        """Payload as nccl-tests counts it; NCCL states the part of one rank."""
        factor = 1
        if self.function in _PER_RANK:
            factor = self.member.num_ranks if self.member else 0
        size = self.message_bytes
        return size * factor if size is not None and factor and size * factor < _LARGEST else None


@dataclass(frozen=True, slots=True)
class NcclRange:
    """One call of a communicator that moves data, ns; ``alike`` is what it has in common."""

    alike: NcclCalls
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class NcclRanges:
    """The calls that move data, alike ones together, and the memberships of each process.

    ``placed`` are the single calls whose communicator and rank are stated, by start.
    """

    calls: Sequence[NcclCalls]
    members: Mapping[int, Set[Membership]]
    placed: Sequence[NcclRange] = ()

    def rank_of(self, pid: int, device: int) -> int | None:
        """The rank of a GPU in the largest communicator of its process; None where not stated."""
        ranks = self.ranks_of(pid)
        if len(ranks) > 1:
            ranks = {member.rank for member in self._largest(pid) if member.device == device}
        return next(iter(ranks)) if len(ranks) == 1 else None

    def ranks_of(self, pid: int) -> Set[int]:
        """The ranks of a process in its largest communicator; none where not stated."""
        return {member.rank for member in self._largest(pid)}

    def _largest(self, pid: int) -> list[Membership]:
        own = self.members.get(pid, set())
        largest = max((member.num_ranks for member in own), default=0)
        return [member for member in own if member.num_ranks == largest]


def read_nccl_ranges(database: sqlite3.Connection) -> NcclRanges:
    """What the ranges of NCCL state; without payloads, calls by name alone."""
    columns = columns_of(database, RANGES)
    if not columns >= {"text", "textId", "globalTid", "eventType"} or not columns_of(
        database, STRINGS
    ):
        return NcclRanges((), {})
    # A column of texts may hold blobs, which would be decoded as texts.
    blob = "CAST(n.binaryData AS BLOB)" if "binaryData" in columns else "NULL"
    domain = "n.domainId" if "domainId" in columns else "NULL"
    rows = database.execute(
        f"SELECT n.globalTid, coalesce(n.text, s.value), {domain}, {blob}, n.start, n.end "
        f"FROM {RANGES} n LEFT JOIN {STRINGS} s ON s.id = n.textId "
        "WHERE coalesce(n.text, s.value) GLOB 'nccl[A-Z]*' AND n.eventType != ? "
        "AND n.globalTid IS NOT NULL ORDER BY n.start",
        (DOMAIN_CREATED,),
    )
    layouts = _layouts(database)
    members: dict[tuple[int, str], set[tuple[int, Membership]]] = defaultdict(set)
    read: list[tuple[tuple[int, str, str, int | None], object, object]] = []
    known: dict[tuple[object, object], dict[str, int]] = {}
    for thread, name, number, data, start, end in rows:
        if not isinstance(thread, int):
            continue
        if (data, number) not in known:
            known[data, number] = _values(data, number, layouts)
        values = known[data, number]
        communicator = f"{values[_COMMUNICATOR]:#x}" if _COMMUNICATOR in values else ""
        if _MOVES_DATA.fullmatch(str(name)):
            read.append(((thread, str(name), communicator, values.get(_BYTES)), start, end))
        elif _RANK in values and _NUM_RANKS in values:
            member = Membership(values[_RANK], values[_NUM_RANKS], values.get(_DEVICE))
            if 0 <= member.rank < member.num_ranks < _MOST_RANKS:
                members[_pid(thread), communicator].add((thread, member))
    of_processes: dict[int, set[Membership]] = defaultdict(set)
    for (pid, _), of_communicator in members.items():
        of_processes[pid] |= {one for _, one in of_communicator}
    return _as_ranges(read, members, of_processes)


def _as_ranges(
    read: Sequence[tuple[tuple[int, str, str, int | None], object, object]],
    members: Mapping[tuple[int, str], set[tuple[int, Membership]]],
    of_processes: Mapping[int, Set[Membership]],
) -> NcclRanges:
    merged: Counter[NcclCalls] = Counter()
    placed = []
    for (thread, name, communicator, size), start, end in read:
        pid = _pid(thread)
        member = _member(members.get((pid, communicator), set()), thread)
        alike = NcclCalls(pid, name, communicator, member, size, 0)
        merged[alike] += 1
        if member and communicator and isinstance(start, int) and isinstance(end, int):
            placed.append(NcclRange(alike, start, end))
    calls = [replace(alike, number=number) for alike, number in merged.items()]
    return NcclRanges(calls, of_processes, placed)


def _pid(thread: int) -> int:
    return (thread >> 24) & 0xFFFFFF


def _member(known: set[tuple[int, Membership]], thread: int) -> Membership | None:
    """The one membership of a process, else that of the thread; None where several are left."""
    of_process = {member for _, member in known}
    if len(of_process) > 1:
        of_process = {member for own, member in known if own == thread}
    return next(iter(of_process)) if len(of_process) == 1 else None


def _layouts(database: sqlite3.Connection) -> Mapping[tuple[int, int], Layout]:
    """Place and type of each named number, by domain and schema; those that differ are left out."""
    if not columns_of(database, _ENTRIES) >= {
        "domainId", "schemaId", "idx", "type", "name", "offset",
    }:  # fmt: skip
        return {}
    found: dict[tuple[int, int], dict[str, tuple[int, struct.Struct]]] = defaultdict(dict)
    odd: set[tuple[int, int, str]] = set()
    rows = database.execute(f"SELECT domainId, schemaId, idx, type, name, offset FROM {_ENTRIES}")
    for domain, schema, index, kind, name, offset in rows:
        # The first entry has no offset in exports; any other one without is not placed.
        place = 0 if offset is None and index == 0 else offset
        known = kind in _TYPES and isinstance(place, int) and 0 <= place < _LARGEST
        if not known or not isinstance(domain, int) or not isinstance(schema, int):
            continue
        entry = place, struct.Struct(f"<{_TYPES[kind]}")
        before = found[domain, schema].setdefault(str(name), entry)
        if (before[0], before[1].format) != (place, entry[1].format):
            odd.add((domain, schema, str(name)))
    for domain, schema, name in odd:
        del found[domain, schema][name]
    return found


def _values(
    data: object, domain: object, layouts: Mapping[tuple[int, int], Layout]
) -> dict[str, int]:
    """The numbers of a payload by name; empty where it is missing, cut or of unknown layout."""
    if not isinstance(data, bytes) or len(data) < _HEADER.size or not isinstance(domain, int):
        return {}
    of_domain, schema, length, _ = _HEADER.unpack_from(data)
    if of_domain != domain or length > len(data) - _HEADER.size:
        return {}
    values = {}
    for name, (place, kind) in layouts.get((domain, schema), {}).items():
        if place + kind.size <= length:
            value = int(kind.unpack_from(data, _HEADER.size + place)[0])
            if name == _COMMUNICATOR or 0 <= value < _LARGEST:
                values[name] = value
    return values


@contextmanager
def opened_export(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads the file; texts that are no UTF-8 are replaced.

    Raises:
        UnreadableInputError: The file is damaged, also where that shows only during the block.
    """
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Messages of SQLite quote names of the file, which may be no UTF-8.
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise UnreadableInputError(
                f"{shown_name(path)} could not be sorted: the folder for temporary files is full.",
                hint="Set SQLITE_TMPDIR to a folder with as much room as the export takes.",
            ) from error
        raise UnreadableInputError(
            f"{shown_name(path)} is a damaged SQLite file ({error}); it is not read.",
            hint="Export it again: nsys export --type sqlite REPORT.nsys-rep.",
        ) from error


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty where it does not exist."""
    kinds = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    if ("table",) not in kinds:
        return set()
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def version_of(database: sqlite3.Connection) -> str:
    """The version of Nsight Systems that wrote the export; empty where unknown."""
    if not columns_of(database, "META_DATA_EXPORT") >= {"name", "value"}:
        return ""
    row = database.execute(
        "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"
    ).fetchone()
    return "" if row is None else str(row[0])


def is_nccl_kernel(name: str) -> bool:
    """Whether a kernel of that name communicates."""
    return name.lower().startswith("nccl")
