"""A timeline file that stands alone to tables; a large one is parsed once and then kept."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from hvdprof.ingest import parquet_cache
from hvdprof.ingest.blocks import Block, stacked
from hvdprof.ingest.gathered import Gathered
from hvdprof.ingest.horovod_timeline import read_timeline_file
from hvdprof.ingest.parquet_cache import cached_tables
from hvdprof.model.log_tables import NOTES
from hvdprof.model.schema import Table
from hvdprof.model.tables import EVENTS
from hvdprof.model.timeline_file_tables import TIMELINES
from hvdprof.model.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far and its size."""

_STACKED = (EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS)
_TABLES = (*_STACKED, TIMELINES, NOTES)


def add_lone_timeline(path: Path, gathered: Gathered, progress: Progress) -> int:
    """Add all that a timeline file holds, its notes too, with its name as the pass.

    Returns:
        The number of rows of EVENTS.

    Raises:
        MissingExtraError: It is a zstd file, and zstandard is not installed.
        OSError: It cannot be read.
    """
    if path.stat().st_size < parquet_cache.KEEP_FROM_BYTES:
        clauses, num_rows = _add_parsed(path, gathered, progress)
    else:
        tables = cached_tables(_TABLES, (path,), lambda: _parsed(path, progress))
        clauses, num_rows = tuple(tables[NOTES.name]["note"]), len(tables[EVENTS.name])
        _add_kept(path, gathered, tables)
    gathered.notes.extend(f"{path}: {clause}." for clause in clauses)
    return num_rows


def _add_parsed(path: Path, gathered: Gathered, progress: Progress) -> tuple[tuple[str, ...], int]:
    file = read_timeline_file(path, progress=progress)
    return file.problems, gathered.add_timeline(str(path), "", file, None, None)


def _parsed(path: Path, progress: Progress) -> dict[str, pd.DataFrame]:
    alone = Gathered()
    clauses, _ = _add_parsed(path, alone, progress)
    blocks = {EVENTS.name: alone.events, **alone.of_timelines}
    (row,) = alone.others.get(TIMELINES.name, [TIMELINES.empty()])
    return {
        **{table.name: stacked(table, blocks.get(table.name, [])) for table in _STACKED},
        TIMELINES.name: row,
        NOTES.name: NOTES.frame({"note": clauses}),
    }


def _add_kept(path: Path, gathered: Gathered, tables: Mapping[str, pd.DataFrame]) -> None:
    for table in _STACKED:
        frame = tables[table.name]
        if not len(frame):
            continue
        if table is EVENTS:
            gathered.events.append(_block(table, frame, path))
        else:
            gathered.of_timelines.setdefault(table.name, []).append(_block(table, frame, path))
    row = tables[TIMELINES.name].assign(pass_id=str(path))
    gathered.add_tables([(TIMELINES.name, TIMELINES.frame(row))])


def _block(table: Table, frame: pd.DataFrame, path: Path) -> Block:
    columns = {column.name: frame[column.name].array for column in table.columns}
    # The file may have had another name when it was parsed: a relative one, or that of a link.
    return {**columns, "pass_id": str(path)}
