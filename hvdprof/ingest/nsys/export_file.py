"""An export of Nsight Systems: its kernels by GPU, read without changing the file.

Tables exist only where something of their kind was recorded, and columns differ by version: both
are asked for first. The file is opened read-only and as immutable, so that no lock and no journal
appears beside it; only tables are read, never views.

Tested in ``tests/ingest/nsys/test_export_tables.py``.
"""

import sqlite3
import urllib.parse
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hvdprof.errors import UnreadableInputError
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.shown_names import shown_name

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_RANGES = "NVTX_EVENTS"
_STRINGS = "StringIds"
_NEEDED = {"start", "end", "deviceId"}
_DOMAIN_CREATED = 75
_MOST_KERNELS = 50_000_000
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Export:
    """What a file holds: kernels as columns, ``names`` by the number in ``name_ids``.

    ``nccl_calls`` counts ranges of NCCL's domain by process.
    """

    starts: Int64s
    ends: Int64s
    devices: Int64s
    pids: Int64s
    name_ids: Int64s
    names: Mapping[int, str]
    nccl_calls: Mapping[int, int]
    version: str


def read_export(path: Path) -> Export:
    """The kernels of an export.

    Raises:
        UnreadableInputError: It is damaged, holds no kernels, or far too many.
    """
    name = shown_name(path)
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            return _read(database, name)
    except sqlite3.Error as error:
        raise UnreadableInputError(
            f"{name} is a damaged SQLite file ({error}); it is not read.",
            hint="Export it again: nsys export --type sqlite REPORT.nsys-rep.",
        ) from error


def _read(database: sqlite3.Connection, name: str) -> Export:
    columns = _columns(database, _KERNELS)
    if not columns >= _NEEDED:
        raise UnreadableInputError(
            f"{name} is an export of Nsight Systems without CUDA kernels.",
            hint="Record them: nsys profile --trace=cuda,nvtx,nccl COMMAND.",
        )
    text = next((one for one in ("shortName", "demangledName") if one in columns), "0")
    process = "globalPid" if "globalPid" in columns else "0"
    query = f"SELECT start, end, deviceId, {process}, {text} FROM {_KERNELS} WHERE end >= start"
    pieces = []
    number = 0
    cursor = database.execute(query)
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        number += len(rows)
        if number > _MOST_KERNELS:
            raise UnreadableInputError(f"{name} holds more than {_MOST_KERNELS:,} kernels.")
        pieces.append(_whole_rows(rows, name))
    kernels = np.concatenate(pieces) if pieces else np.empty((0, 5), dtype=np.int64)
    used = {int(one) for one in np.unique(kernels[:, 4])}
    return Export(
        starts=kernels[:, 0],
        ends=kernels[:, 1],
        devices=kernels[:, 2],
        # The process is in the middle of the number that names it across machines.
        pids=(kernels[:, 3] >> 24) & 0xFFFFFF,
        name_ids=kernels[:, 4],
        names=_strings(database, used),
        nccl_calls=_nccl_calls(database),
        version=_version(database),
    )


def _whole_rows(rows: list[tuple[object, ...]], name: str) -> Int64s:
    try:
        return np.array([[value or 0 for value in row] for row in rows]).astype(
            np.int64, casting="safe"
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableInputError(f"{name} holds kernels whose times are no numbers.") from error


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty where it does not exist."""
    kinds = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    if ("table",) not in kinds:
        return set()
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _strings(database: sqlite3.Connection, wanted: set[int]) -> dict[int, str]:
    if not _columns(database, _STRINGS) >= {"id", "value"}:
        return {}
    rows = database.execute(f"SELECT id, value FROM {_STRINGS}")
    return {int(number): str(value) for number, value in rows if number in wanted}


def _nccl_calls(database: sqlite3.Connection) -> dict[int, int]:
    """Ranges of NCCL by process: by name, because exports that were cut lack the domain's."""
    columns = _columns(database, _RANGES)
    if not columns >= {"text", "textId", "globalTid", "eventType"} or not _columns(
        database, _STRINGS
    ):
        return {}
    rows = database.execute(
        f"SELECT (n.globalTid >> 24) & 0xFFFFFF, count(*) FROM {_RANGES} n "
        f"LEFT JOIN {_STRINGS} s ON s.id = n.textId "
        "WHERE coalesce(n.text, s.value) GLOB 'nccl[A-Z]*' AND n.eventType != ? "
        "AND n.globalTid IS NOT NULL GROUP BY 1",
        (_DOMAIN_CREATED,),
    )
    return Counter({int(pid): int(number) for pid, number in rows})


def _version(database: sqlite3.Connection) -> str:
    if not _columns(database, "META_DATA_EXPORT") >= {"name", "value"}:
        return ""
    row = database.execute(
        "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"
    ).fetchone()
    return "" if row is None else str(row[0])
