"""An export of Nsight Systems: its kernels by GPU, its calls of NCCL, and the steps of its job.

Scripts and frameworks mark steps as ``step 12``, ``ProfilerStep#12`` or ``iteration 12/100``. A
series of steps is on one thread, its ranges follow each other, and the number in the name rises.
Where a process has several, such as steps and the batches in them, the longest in total counts.
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.nsys.nccl_payloads import (
    DOMAIN_CREATED,
    KERNELS,
    PUSH_POP_RANGES,
    RANGES,
    RUNTIME,
    STRINGS,
    NcclRanges,
    columns_of,
    opened_export,
    read_nccl_ranges,
    version_of,
)
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.regular_file import shown_name

# Names of operations such as "aten::batch_norm, seq = 7, op_id = 8" repeat with rising numbers too.
_STEP = re.compile(
    r"([^,]{0,80}?(?:step|iter|iteration|batch)[^\w,]{0,4}_?)(\d{1,15})(?: ?/ ?\d{1,15})?\W{0,3}",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_LEAST = 2
_LARGEST = 2**62
_RANGES_AT_ONCE = 100_000

_NEEDED = {"start", "end", "deviceId"}
_LARGEST_NS = 2**62
_MOST_KERNELS = 50_000_000
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class StepRanges:
    """The steps of one process in order of time: what their names share, numbers, begins, ends."""

    name: str
    numbers: Int64s
    starts: Int64s
    ends: Int64s

    def step_of(self, moments: Int64s) -> Int64s:
        """The place of the step in which each moment is; -1 outside all steps."""
        place = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (place >= 0) & (moments < self.ends[np.maximum(place, 0)])
        return np.asarray(np.where(inside, place, -1), dtype=np.int64)


def step_ranges(database: sqlite3.Connection) -> dict[int, StepRanges]:
    """The steps of each process, by its number; processes without any are left out."""
    columns = columns_of(database, RANGES)
    if not columns >= {"start", "end", "eventType", "text", "globalTid"}:
        return {}
    of_strings = columns_of(database, STRINGS) >= {"id", "value"} and "textId" in columns
    name = "coalesce(n.text, s.value)" if of_strings else "n.text"
    join = f"LEFT JOIN {STRINGS} s ON s.id = n.textId " if of_strings else ""
    domain = "n.domainId" if "domainId" in columns else "0"
    kinds = ", ".join(map(str, PUSH_POP_RANGES))
    rows = database.execute(
        f"SELECT n.globalTid, {domain}, {name}, n.start, n.end FROM {RANGES} n {join}"
        f"WHERE n.eventType IN ({kinds}) AND ({name} LIKE '%step%' OR {name} LIKE '%iter%' "
        f"OR {name} LIKE '%batch%') ORDER BY n.start"
    )
    series: dict[tuple[int, object, str], list[tuple[int, int, int]]] = defaultdict(list)
    for thread, number_of_domain, text, start, end in rows:
        found = _STEP.fullmatch(str(text))
        whole = all(
            isinstance(value, int) and abs(value) < _LARGEST for value in (thread, start, end)
        )
        if found and whole and end > start:
            stem = _DIGITS.sub("#", found[1])
            series[thread, number_of_domain, stem].append((int(found[2]), start, end))
    best: dict[int, StepRanges] = {}
    for (thread, _, stem), ranges in series.items():
        numbers, starts, ends = np.array(ranges, dtype=np.int64).T
        rises = (np.diff(numbers) > 0).all() and (starts[1:] >= ends[:-1]).all()
        if len(ranges) < _LEAST or not rises:
            continue
        steps, pid = StepRanges(stem, numbers, starts, ends), (thread >> 24) & 0xFFFFFF
        if pid not in best or _length(steps) > _length(best[pid]):
            best[pid] = steps
    return best


def launch_times(
    database: sqlite3.Connection, pids: Int64s, correlations: Int64s, starts: Int64s
) -> Int64s:
    """When the host launched each kernel; its start where the export does not say.

    Args:
        database: The export.
        pids: The process of each kernel.
        correlations: The number that it shares with the call that launched it; 0 if unknown.
        starts: Its start.
    """
    if not columns_of(database, RUNTIME) >= {"start", "correlationId", "globalTid"}:
        return starts
    keys = (pids << 32) | (correlations & 0xFFFFFFFF)
    order = np.argsort(keys, kind="stable")
    ascending, launches = keys[order], starts.copy()
    cursor = database.execute(
        "SELECT ((globalTid >> 24) & 16777215) << 32 | (correlationId & 4294967295), start "
        f"FROM {RUNTIME} WHERE typeof(start) = 'integer' AND typeof(correlationId) = 'integer' "
        "AND typeof(globalTid) = 'integer' AND correlationId != 0"
    )
    while rows := cursor.fetchmany(_RANGES_AT_ONCE):
        found, times = np.array(rows, dtype=np.int64).T
        first = np.searchsorted(ascending, found, side="left")
        number = np.searchsorted(ascending, found, side="right") - first
        # Of a launched graph, many kernels have one number.
        places = np.repeat(first - np.cumsum(number) + number, number) + np.arange(number.sum())
        launches[order[places]] = np.repeat(times, number)
    # A launch behind the start of its kernel is that of another call.
    return np.minimum(launches, starts)


def only_process(steps: Mapping[int, StepRanges], pid: int) -> StepRanges | None:
    """The steps of a process; of an export whose kernels name none, those of the only one."""
    if pid == 0 and len(steps) == 1:
        return next(iter(steps.values()))
    return steps.get(pid)


def _length(steps: StepRanges) -> int:
    return int((steps.ends - steps.starts).sum())


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
