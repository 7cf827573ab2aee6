"""Exports of Nsight Systems with known kernels: (start, end, device, name) in ns."""

import sqlite3
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


def write_export(
    path: Path,
    kernels: Iterable[Kernel] = (),
    ranges: Iterable[str | Range] = (),
    *,
    with_process: bool = True,
) -> Path:
    """Write an export; tables without rows are absent, as in real ones.

    Args:
        path: The file.
        kernels: The kernels of one process.
        ranges: NVTX ranges; of those that are names alone, the times are 1 to 2 ns.
        with_process: Whether kernels state their process, as newer exports do.
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
                f"deviceId INTEGER, shortName INTEGER, streamId INTEGER{process})"
            )
            for start, end, device, name in rows:
                values = [start, end, device, strings.setdefault(name, len(strings) + 1), STREAM]
                values += [PID << 24] * with_process
                marks = ", ".join("?" * len(values))
                run(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", values)
        if rows_of_nvtx := list(ranges):
            run(
                "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, "
                "text TEXT, textId INTEGER, globalTid INTEGER, domainId INTEGER, int64Value)"
            )
            for row in rows_of_nvtx:
                one = Range(1, 2, row) if isinstance(row, str) else row
                number = strings.setdefault(one.name, len(strings) + 1)
                thread = (PID << 24) + one.thread
                run(
                    "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, NULL, ?, ?, ?, ?)",
                    [one.start, one.end, one.kind, number, thread, one.domain, one.payload],
                )
        for value, number in strings.items():
            run("INSERT INTO StringIds VALUES (?, ?)", [number, value])
        database.commit()
    return path
