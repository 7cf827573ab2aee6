"""An export of Nsight Systems: its kernels by GPU, and its calls of NCCL."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.nsys.export_database import (
    DOMAIN_CREATED,
    KERNELS,
    RANGES,
    STRINGS,
    columns_of,
    opened_export,
    version_of,
)
from hvdprof.ingest.nsys.nccl_payloads import NcclRanges, read_nccl_ranges
from hvdprof.ingest.nsys.step_ranges import StepRanges, launch_times, step_ranges
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.file_names import shown_name

_NEEDED = {"start", "end", "deviceId"}
_LARGEST_NS = 2**62
_MOST_KERNELS = 50_000_000
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Export:
    """What a file holds: kernels as columns, ``names`` by the number in ``name_ids``.

    ``num_nccl_ranges`` counts ranges of NCCL's domain by process, ``nccl`` is what they state.
    ``launches`` are times of the host where ``steps`` or payloads of NCCL need them: else they are
    ``starts``.
    """

    starts: Int64s
    ends: Int64s
    devices: Int64s
    pids: Int64s
    name_ids: Int64s
    names: Mapping[int, str]
    num_nccl_ranges: Mapping[int, int]
    nccl: NcclRanges
    steps: Mapping[int, StepRanges]
    launches: Int64s
    version: str


def read_export(path: Path) -> Export:
    """The kernels of an export.

    Raises:
        UnreadableInputError: It is damaged, holds no kernels, or far too many.
    """
    with opened_export(path) as database:
        return _read(database, shown_name(path))


def _read(database: sqlite3.Connection, name: str) -> Export:
    columns = columns_of(database, KERNELS)
    if not columns >= _NEEDED:
        raise UnreadableInputError(
            f"{name} is an export of Nsight Systems without CUDA kernels.",
            hint="Record them: nsys profile --trace=cuda,nvtx,nccl COMMAND.",
        )
    text = next((column for column in ("shortName", "demangledName") if column in columns), "0")
    process = "globalPid" if "globalPid" in columns else "0"
    correlation = "correlationId" if "correlationId" in columns else "0"
    query = (
        f"SELECT start, end, deviceId, {process}, {text}, {correlation} FROM {KERNELS} "
        "WHERE end >= start"
    )
    pieces = []
    number = 0
    cursor = database.execute(query)
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        number += len(rows)
        if number > _MOST_KERNELS:
            raise UnreadableInputError(f"{name} holds more than {_MOST_KERNELS:,} kernels.")
        pieces.append(_whole_rows(rows, name))
    kernels = np.concatenate(pieces) if pieces else np.empty((0, 6), dtype=np.int64)
    used = {int(text_id) for text_id in np.unique(kernels[:, 4])}
    # The process is in the middle of the number that names it across machines.
    pids = (kernels[:, 3] >> 24) & 0xFFFFFF
    steps, starts, nccl = step_ranges(database), kernels[:, 0], read_nccl_ranges(database)
    is_launched = bool(steps or nccl.placed)
    return Export(
        starts=starts,
        ends=kernels[:, 1],
        devices=kernels[:, 2],
        pids=pids,
        name_ids=kernels[:, 4],
        names=_strings(database, used),
        num_nccl_ranges=_nccl_ranges(database),
        nccl=nccl,
        steps=steps,
        launches=launch_times(database, pids, kernels[:, 5], starts) if is_launched else starts,
        version=version_of(database),
    )


def _whole_rows(rows: list[tuple[object, ...]], name: str) -> Int64s:
    try:
        table = np.array([[value or 0 for value in row] for row in rows]).astype(
            np.int64, casting="safe"
        )
        if (table[:, 0] <= -_LARGEST_NS).any() or (table[:, 1] >= _LARGEST_NS).any():
            raise OverflowError("a length would not fit")
        return table
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableInputError(f"{name} holds kernels whose times are no numbers.") from error


def _strings(database: sqlite3.Connection, wanted: set[int]) -> dict[int, str]:
    if not columns_of(database, STRINGS) >= {"id", "value"}:
        return {}
    rows = database.execute(f"SELECT id, value FROM {STRINGS}")
    return {int(number): str(value) for number, value in rows if number in wanted}


def _nccl_ranges(database: sqlite3.Connection) -> dict[int, int]:
    """Ranges of NCCL by process: by name, because exports that were cut lack the domain's."""
    columns = columns_of(database, RANGES)
    if not columns >= {"text", "textId", "globalTid", "eventType"} or not columns_of(
        database, STRINGS
    ):
        return {}
    rows = database.execute(
        f"SELECT (n.globalTid >> 24) & 0xFFFFFF, count(*) FROM {RANGES} n "
        f"LEFT JOIN {STRINGS} s ON s.id = n.textId "
        "WHERE coalesce(n.text, s.value) GLOB 'nccl[A-Z]*' AND n.eventType != ? "
        "AND n.globalTid IS NOT NULL GROUP BY 1",
        (DOMAIN_CREATED,),
    )
    return Counter({int(pid): int(number) for pid, number in rows})
