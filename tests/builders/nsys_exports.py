"""Exports of Nsight Systems with known kernels: (start, end, device, name) in ns."""

import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

Kernel = tuple[int, int, int, str]
PID = 4242
STREAM = 7
PUSHED, MARK, DOMAIN = 59, 34, 75


@dataclass(frozen=True)
class Range:
    """A row of NVTX: an interval, a mark, or the name of a domain."""

    start: int
    end: int | None
    name: str
    kind: int = PUSHED
    domain: int = 0
    thread: int = 7
    payload: object = None
    data: object = None


# Schemas as in exports of 2026.2 with NCCL 2.27: names and types of the entries, and their offsets,
# of which the first is not written.
MADE, REDUCED, COLLECTED = 16777218, 16777223, 16777220
_COMMUNICATOR, _SIZE = ("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8)
_SCHEMAS = {
    MADE: (_COMMUNICATOR, ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)),
    REDUCED: (_COMMUNICATOR, _SIZE, ("Reduction operation", 16777232, 16)),
    COLLECTED: (_COMMUNICATOR, _SIZE),
}


def payload(schema: int, *values: int, domain: int = 1) -> bytes:
    """``binaryData`` of a range of NCCL, with values in the order of the schema's entries."""
    form = {MADE: "<Qiii4x", REDUCED: "<QQi4x", COLLECTED: "<QQ"}[schema]
    body = struct.pack(form, *values)
    return struct.pack("<QQQQ", domain, schema, len(body), 32) + body


def add_schemas(path: Path, *, schemas: Iterable[int] = tuple(_SCHEMAS), times: int = 2) -> Path:
    """Add the schemas of NCCL's payloads, once for each of several processes as real exports do."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER NOT NULL, schemaId INTEGER "
            "NOT NULL, idx INTEGER NOT NULL, flags INTEGER, type INTEGER, name TEXT, description "
            "TEXT, arrayOrUnionDetail INTEGER, offset INTEGER)"
        )
        for schema in [*schemas] * times:
            for index, (name, kind, offset) in enumerate(_SCHEMAS[schema]):
                database.execute(
                    "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, ?, ?, NULL, ?, ?, NULL, "
                    "NULL, ?)",
                    [schema, index, kind, name, offset],
                )
        database.commit()
    return path


def write_export(
    path: Path,
    kernels: Iterable[Kernel] = (),
    ranges: Iterable[str | Range] = (),
    *,
    with_process: bool = True,
    launches: Iterable[int] = (),
) -> Path:
    """Write an export; tables without rows are absent, as in real ones.

    Args:
        path: The file.
        kernels: The kernels of one process.
        ranges: NVTX ranges; of those that are names alone, the times are 1 to 2 ns.
        with_process: Whether kernels state their process, as newer exports do.
        launches: When the host launched each of the first kernels, by ``correlationId``.
    """
    path.unlink(missing_ok=True)
    strings: dict[str, int] = {}
    with closing(sqlite3.connect(path)) as database:
        run = database.execute
        run("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        run("CREATE TABLE TARGET_INFO_GPU (id INTEGER)")
        if rows := list(kernels):
            process = ", globalPid INTEGER" if with_process else ""
            run(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, "
                "deviceId INTEGER, shortName INTEGER, streamId INTEGER, "
                f"correlationId INTEGER{process})"
            )
            for number, (start, end, device, name) in enumerate(rows, 1):
                values = [start, end, device, strings.setdefault(name, len(strings) + 1), STREAM]
                values += [number]
                values += [PID << 24] * with_process
                marks = ", ".join("?" * len(values))
                run(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", values)
        if calls := list(launches):
            run(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, "
                "globalTid INTEGER, correlationId INTEGER)"
            )
            for number, start in enumerate(calls, 1):
                values = [start, start + 1, (PID << 24) + 7, number]
                run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", values)
        if rows_of_nvtx := list(ranges):
            run(
                "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, "
                "text TEXT, textId INTEGER, globalTid INTEGER, domainId INTEGER, int64Value, "
                "binaryData TEXT)"
            )
            for row in rows_of_nvtx:
                one = Range(1, 2, row) if isinstance(row, str) else row
                number = strings.setdefault(one.name, len(strings) + 1)
                thread = (PID << 24) + one.thread
                run(
                    "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?)",
                    [
                        *(one.start, one.end, one.kind, number, thread, one.domain),
                        *(one.payload, one.data),
                    ],
                )
        for value, number in strings.items():
            run("INSERT INTO StringIds VALUES (?, ?)", [number, value])
        database.commit()
    return path
