"""A timeline file that stands alone to tables; a large one is read once, in parts, and kept."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.blocks import Block, stacked
from hvdprof.ingest.storage.cached_table import KeptTable
from hvdprof.ingest.storage.parquet_cache import cached_tables, keep_in_parts, kept_files
from hvdprof.ingest.tables.run_builder import Gathered
from hvdprof.ingest.timeline.horovod_timeline import read_timeline_file
from hvdprof.ingest.timeline.parse import has_numba
from hvdprof.model.schema import Table
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far and its size."""

_STACKED = (EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS)
_TABLES = (*_STACKED, TIMELINES, NOTES)


def add_lone_timeline(path: Path, gathered: Gathered, progress: Progress) -> int:
    """Add all that a timeline file holds, its notes too, with its name as the pass.

    Args:
        path: The file.
        gathered: What it is added to; tables of a large file stay in the files that keep them.
        progress: Told the bytes read so far.

    Returns:
        The number of rows of EVENTS.

    Raises:
        OSError: It cannot be read.
    """
    kept = kept_tables(path, progress)
    if kept is not None:
        clauses: tuple[str, ...] = tuple(kept[NOTES.name].frame()["note"])
        gathered.kept[str(path)] = {table.name: kept[table.name] for table in _STACKED}
        gathered.add_tables([(TIMELINES.name, kept[TIMELINES.name].frame())])
        num_rows = len(kept[EVENTS.name])
    elif path.stat().st_size < parquet_cache.KEEP_FROM_BYTES:
        clauses, num_rows = _add_parsed(path, gathered, progress)
    else:
        tables = cached_tables(_TABLES, (path,), lambda: _parsed(path, progress))
        clauses = tuple(tables[NOTES.name]["note"])
        num_rows = len(tables[EVENTS.name])
        _add_kept(path, gathered, tables)
    gathered.notes.extend(f"{path}: {clause}." for clause in clauses)
    return num_rows


def kept_tables(path: Path, progress: Progress) -> dict[str, KeptTable] | None:
    """The tables of a large timeline by name as they are kept, made where they are missing.

    The file is read in parts, so that its rows are never in memory all at once.

    Returns:
        ``None`` where the tables cannot be made so: the file is small, holds nothing usable or
        tells something late, numba is not installed, or there is no place to keep them.

    Raises:
        OSError: It cannot be read.
    """
    if path.stat().st_size < parquet_cache.KEEP_FROM_BYTES or not has_numba():
        return None
    files = kept_files(_TABLES, path)
    if files is not None:
        return _tables_in(files, path)
    # Importing these takes numba.
    from hvdprof.ingest.tables.streamed_timeline import NotAsPresumedError, write_timeline
    from hvdprof.ingest.timeline.streaming.stream import NotInPartsError

    write = functools.partial(write_timeline, path, progress=progress)
    try:
        try:
            keep_in_parts(_TABLES, path, write)
        except NotAsPresumedError as found:
            keep_in_parts(_TABLES, path, functools.partial(write, known=found.known))
    except (NotInPartsError, UnreadableInputError):
        return None
    files = kept_files(_TABLES, path)
    return None if files is None else _tables_in(files, path)


def _tables_in(files: Mapping[str, Path], path: Path) -> dict[str, KeptTable]:
    return {table.name: KeptTable(table, files[table.name], str(path)) for table in _TABLES}


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
        frame = tables.get(table.name)
        if frame is None or frame.empty:
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
