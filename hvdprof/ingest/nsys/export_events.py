"""The kernels and NVTX ranges of an export in order of time, read while they are used.

SQLite sorts, in a temporary file where the rows are many: memory holds names alone, and of these
the ones used last.
"""

import functools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.kineto.collective_calls import collective_of
from hvdprof.ingest.nsys.nccl_payloads import (
    DOMAIN_CREATED,
    KERNELS,
    RANGES,
    STRINGS,
    columns_of,
    is_nccl_kernel,
    opened_export,
    read_nccl_ranges,
    version_of,
)
from hvdprof.model.tables.nsys_tables import NsysEvent, NsysEvents, NsysKind, NsysLane
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.regular_file import shown_name

# Push/pop and start/end; the second pair is that of NVTXT files.
_INTERVALS = (59, 60, 70, 71)
_MARKS = (34, 65)
_WITHOUT_THREAD = 24
_PID = 0xFFFFFF
_CACHED_NAMES = 65_536
_PAYLOADS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
_PROCESS_UNKNOWN = "process not recorded"

Row = tuple[object, ...]


@dataclass(slots=True)
class _Part:
    """One table of the export: its lanes, its span, and what gives its events by start."""

    lanes: list[NsysLane] = field(default_factory=list)
    span_ns: tuple[int, int] | None = None
    events: Callable[[], Iterator[NsysEvent]] = lambda: iter(())


@contextmanager
def nsys_events(path: Path) -> Iterator[NsysEvents]:
    """An export of Nsight Systems, open for one reading of its events.

    Raises:
        UnreadableInputError: It is damaged, or holds neither kernels nor NVTX ranges; damage may
            show only while the events are read.
    """
    name = shown_name(path)
    with opened_export(path) as database:
        text_of = _string_reader(database)
        parts = [_ranges(database, text_of, name), _kernels(database, text_of, name)]
        spans = [part.span_ns for part in parts if part.span_ns is not None]
        if not spans:
            raise UnreadableInputError(
                f"{name} is an export of Nsight Systems without CUDA kernels and NVTX ranges.",
                hint="Record them: nsys profile --trace=cuda,nvtx,nccl COMMAND.",
            )
        lanes = [lane for part in parts for lane in part.lanes]
        yield NsysEvents(
            processes=_processes(database, sorted({lane.process for lane in lanes})),
            lanes=lanes,
            events=merge(*(part.events() for part in parts), key=_order(spans)),
            first_ns=min(first for first, _ in spans),
            last_ns=max(last for _, last in spans),
            version=version_of(database),
        )


def _order(spans: list[tuple[int, int]]) -> Callable[[NsysEvent], tuple[int, int]]:
    last_ns = max(last for _, last in spans)
    return lambda event: (event.start_ns, -(last_ns if event.end_ns is None else event.end_ns))


def _ranges(database: sqlite3.Connection, text_of: Callable[[object], str], name: str) -> _Part:
    columns = columns_of(database, RANGES)
    if not columns >= {"start", "end", "eventType", "text", "globalTid"}:
        return _Part()
    domain = "coalesce(domainId, 0)" if "domainId" in columns else "0"
    text_id = "textId" if "textId" in columns else "NULL"
    payloads = [payload for payload in _PAYLOADS if payload in columns]
    payload = f"coalesce({', '.join([*payloads, 'NULL', 'NULL'])})"
    chosen = f"eventType IN ({', '.join(map(str, (*_INTERVALS, *_MARKS)))})"
    span = _span(database, RANGES, chosen, name)
    if span is None:
        return _Part()
    threads, domains = _threads(database, text_of), _domains(database, columns, text_of)
    places = database.execute(
        f"SELECT DISTINCT coalesce(globalTid, 0), {domain} FROM {RANGES} WHERE {chosen}"
    )
    lanes = {
        (thread, number): NsysLane(
            thread >> _WITHOUT_THREAD, NsysKind.RANGE, _range_lane(thread, number, threads, domains)
        )
        for thread, number in sorted((_whole(a, name), _whole(b, name)) for a, b in places)
    }
    query = (
        f"SELECT start, end, eventType, coalesce(globalTid, 0), {domain}, text, {text_id}, "
        f"{payload} FROM {RANGES} WHERE {chosen} ORDER BY start, coalesce(end, {span[1]}) DESC"
    )

    def events() -> Iterator[NsysEvent]:
        for start, end, kind, thread, number, text, of_text, value in database.execute(query):
            known = isinstance(value, int | float | str)
            yield NsysEvent(
                lane=lanes[thread, number],
                name=text_of(of_text) if text is None else _text(text),
                start_ns=_whole(start, name),
                end_ns=None if end is None else max(_whole(end, name), start),
                is_mark=kind in _MARKS,
                args={"payload": value} if known else {},
            )

    return _Part(list(lanes.values()), span, events)


def _kernels(database: sqlite3.Connection, text_of: Callable[[object], str], name: str) -> _Part:
    columns = columns_of(database, KERNELS)
    if not columns >= {"start", "end", "deviceId"}:
        return _Part()
    process = "coalesce(globalPid, 0)" if "globalPid" in columns else "0"
    stream = "coalesce(streamId, 0)" if "streamId" in columns else "0"
    short = next((column for column in ("shortName", "demangledName") if column in columns), "NULL")
    long = "demangledName" if "demangledName" in columns else "NULL"
    span = _span(database, KERNELS, "end >= start", name)
    if span is None:
        return _Part()
    places = database.execute(
        f"SELECT DISTINCT {process}, coalesce(deviceId, 0), {stream} FROM {KERNELS} "
        "WHERE end >= start"
    )
    lanes: dict[tuple[int, int, int, bool], NsysLane] = {}
    for owner, device, number in sorted(
        tuple(_whole(value, name) for value in row) for row in places
    ):
        where = f"GPU {device} stream {number}" if "streamId" in columns else f"GPU {device}"
        for is_nccl in (False, True):
            kind = NsysKind.NCCL_KERNEL if is_nccl else NsysKind.COMPUTE_KERNEL
            label = f"{where}: {'NCCL' if is_nccl else 'computation'}"
            lanes[owner, device, number, is_nccl] = NsysLane(owner >> _WITHOUT_THREAD, kind, label)
    query = (
        f"SELECT start, end, {process}, coalesce(deviceId, 0), {stream}, {short}, {long} "
        f"FROM {KERNELS} WHERE end >= start ORDER BY start, end DESC"
    )

    def events() -> Iterator[NsysEvent]:
        for start, end, owner, device, number, of_short, of_long in database.execute(query):
            called, full = text_of(of_short), text_of(of_long)
            is_nccl = is_nccl_kernel(called)
            args = {"full name": full} if full not in ("", called) else {}
            if is_nccl and (collective := collective_of(called)):
                args["collective"] = collective
            yield NsysEvent(
                lane=lanes[owner, device, number, is_nccl],
                name=called,
                start_ns=_whole(start, name),
                end_ns=_whole(end, name),
                args=args,
            )

    in_order = sorted(lanes.values(), key=lambda lane: lane.kind is NsysKind.NCCL_KERNEL)
    return _Part(in_order, span, events)


def _span(
    database: sqlite3.Connection, table: str, chosen: str, name: str
) -> tuple[int, int] | None:
    first, last = database.execute(
        f"SELECT min(start), max(coalesce(end, start)) FROM {table} WHERE {chosen}"
    ).fetchone()
    return None if first is None else (_whole(first, name), _whole(last, name))


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int):
        raise UnreadableInputError(f"{name} holds events whose times or places are no numbers.")
    return value


def _string_reader(database: sqlite3.Connection) -> Callable[[object], str]:
    """Strings by number; a number that is not in the file stands for itself."""
    if not columns_of(database, STRINGS) >= {"id", "value"}:
        return lambda number: "" if number is None else f"string {number}"

    @functools.lru_cache(_CACHED_NAMES)
    def text_of(number: object) -> str:
        if number is None:
            return ""
        row = database.execute(f"SELECT value FROM {STRINGS} WHERE id = ?", (number,)).fetchone()
        return f"string {number}" if row is None else _text(row[0])

    return text_of


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _threads(database: sqlite3.Connection, text_of: Callable[[object], str]) -> dict[int, str]:
    if not columns_of(database, "ThreadNames") >= {"nameId", "globalTid"}:
        return {}
    rows = database.execute("SELECT globalTid, nameId FROM ThreadNames").fetchall()
    return {thread: text_of(name) for thread, name in rows if isinstance(thread, int)}


def _domains(
    database: sqlite3.Connection, columns: set[str], text_of: Callable[[object], str]
) -> dict[tuple[int, int], str]:
    """Names of NVTX domains by process and number."""
    if not columns >= {"domainId", "textId"}:
        return {}
    rows = database.execute(
        f"SELECT globalTid, domainId, text, textId FROM {RANGES} WHERE eventType = ?",
        (DOMAIN_CREATED,),
    ).fetchall()
    return {
        (thread >> _WITHOUT_THREAD, domain): text_of(of_text) if text is None else _text(text)
        for thread, domain, text, of_text in rows
        if isinstance(thread, int) and isinstance(domain, int)
    }


def _range_lane(
    thread: int, domain: int, threads: dict[int, str], domains: dict[tuple[int, int], str]
) -> str:
    known = domains.get((thread >> _WITHOUT_THREAD, domain), f"domain {domain}")
    what = f"NVTX {known}" if domain else "NVTX ranges"
    named = f" ({threads[thread]})" if threads.get(thread) else ""
    return f"{what}, thread {thread & _PID}{named}"


def _processes(database: sqlite3.Connection, wanted: list[int]) -> dict[int, str]:
    """Labels of processes by the number that the lanes have."""
    names: dict[int, str] = {}
    if columns_of(database, "PROCESSES") >= {"globalPid", "name"}:
        rows = database.execute("SELECT globalPid, name FROM PROCESSES").fetchall()
        names = {
            number >> _WITHOUT_THREAD: _text(name)
            for number, name in rows
            if isinstance(number, int) and name
        }
    nccl = read_nccl_ranges(database)
    labels = {}
    for number in wanted:
        named = f" ({names[number]})" if number in names else ""
        ranks = nccl.ranks_of(number & _PID)
        rank = [ranks_named(ranks)] if ranks else []
        process = ", ".join([*rank, f"pid {number & _PID}{named}"])
        labels[number] = process if number else _PROCESS_UNKNOWN
    return labels
