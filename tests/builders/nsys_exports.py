"""Exports of Nsight Systems with known kernels: (start, end, device, name) in ns."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

Kernel = tuple[int, int, int, str]
PID = 4242


def write_export(
    path: Path,
    kernels: Iterable[Kernel] = (),
    ranges: Iterable[str] = (),
    *,
    with_process: bool = True,
) -> Path:
    """Write an export; tables without rows are absent, as in real ones.

    Args:
        path: The file.
        kernels: The kernels of one process.
        ranges: Names of NVTX ranges.
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
                f"deviceId INTEGER, shortName INTEGER{process})"
            )
            for start, end, device, name in rows:
                values = [start, end, device, strings.setdefault(name, len(strings) + 1)]
                values += [PID << 24] * with_process
                marks = ", ".join("?" * len(values))
                run(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", values)
        if names := list(ranges):
            run(
                "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, "
                "text TEXT, textId INTEGER, globalTid INTEGER)"
            )
            for name in names:
                number = strings.setdefault(name, len(strings) + 1)
                run(
                    "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, NULL, ?, ?)",
                    [number, (PID << 24) + 7],
                )
        for value, number in strings.items():
            run("INSERT INTO StringIds VALUES (?, ?)", [number, value])
        database.commit()
    return path
