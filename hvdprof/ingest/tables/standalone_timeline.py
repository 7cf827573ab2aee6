"""A standalone timeline file to tables; a large one part by part, into the cache."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from hvdprof.errors import StorageError, UnreadableInputError
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.blocks import Block, block_of
from hvdprof.ingest.storage.cached_table import CachedTable, TableWriter
from hvdprof.ingest.storage.parquet_cache import cached_files, write_cached
from hvdprof.ingest.storage.sealed_file import opened, source_key
from hvdprof.ingest.tables.event_tables import (
    StepTimes,
    TimelineClock,
    event_block,
    execution_block,
    inferred_block,
    inferred_times,
    inferred_times_of_table,
    own_clock,
    pending_block,
    timeline_blocks,
    timeline_clock,
    use_block,
)
from hvdprof.ingest.tables.run_builder import RunBuilder, timeline_file_row
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.timeline.horovod_timeline import read_timeline_file, summary_of
from hvdprof.ingest.timeline.meaning.rounds import Reductions
from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.step_inference import infer_steps
from hvdprof.ingest.timeline.meaning.timeline_rows import (
    ExecutionRows,
    UseRows,
    event_rows,
    execution_rows,
    use_rows,
)
from hvdprof.ingest.timeline.stream import NotInPartsError, PartSpool, read_in_parts
from hvdprof.model.notes import notes_frame, notes_in
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.rundir.regular_file import shown_name

_PIECEWISE = (TENSOR_USES, EXECUTIONS, INFERRED_STEPS)
_AT_ONCE = (TIMELINES, PENDING_NEGOTIATIONS)
_SUMMARY = (*_PIECEWISE, *_AT_ONCE, NOTES)


def add_standalone_timeline(path: Path, builder: RunBuilder, progress: Progress) -> int:
    """Add all that a timeline file holds, its notes too, with its name as the pass.

    Args:
        path: The file.
        builder: Receives it; tables of a large file stay in the cache.
        progress: Called with the bytes of the file read so far and its size.

    Returns:
        The number of rows of EVENTS.

    Raises:
        OSError: It cannot be read.
    """
    is_large = path.stat().st_size >= parquet_cache.CACHE_FROM_BYTES
    cached = cached_timeline(path, progress) if is_large else None
    if cached is None:
        file = read_timeline_file(path, progress=progress)
        clauses = file.problems
        num_rows = builder.add_timeline(shown_name(path), "", file, None, None)
    else:
        clauses = notes_in(cached[NOTES.name].frame())
        num_rows = len(cached[EVENTS.name])
        builder.cached[shown_name(path)] = {
            table.name: cached[table.name] for table in (EVENTS, *_PIECEWISE)
        }
        builder.add_tables([(table.name, cached[table.name].frame()) for table in _AT_ONCE])
    builder.notes += [clause.at(shown_name(path)) for clause in clauses]
    return num_rows


def cached_timeline(path: Path, progress: Progress) -> dict[str, CachedTable] | None:
    """The tables of a large timeline by name; they are put into the cache where it lacks them.

    EVENTS are put there at their first use.

    Returns:
        ``None`` where no place for a cache can be written to, or the file holds nothing usable.

    Raises:
        OSError: It cannot be read.
    """
    key = source_key((path,))
    files = cached_files(_SUMMARY, (path,), key)
    if files is None:
        with contextlib.suppress(UnreadableInputError):
            _cache_summary(path, key, progress)
        files = cached_files(_SUMMARY, (path,), key)
    if files is None:
        return None
    tables = {table.name: CachedTable(table, files[table.name], path) for table in _SUMMARY}
    events = cached_files((EVENTS,), (path,), key)
    if events is not None:
        tables[EVENTS.name] = CachedTable(EVENTS, events[EVENTS.name], path)
    elif len(tables[TIMELINES.name]):
        make = partial(_cached_events, path, key, tables)
        num_events = int(tables[TIMELINES.name].frame()["num_events"].iloc[0])
        tables[EVENTS.name] = CachedTable(EVENTS, make, path, num_events)
    else:
        return None
    return tables


def _cache_summary(path: Path, key: str, progress: Progress) -> None:
    with contextlib.suppress(NotInPartsError):
        write_cached(_SUMMARY, (path,), partial(write_summary, path, progress=progress), key)
        return
    _cache_whole(path, key, progress)


def _cache_whole(path: Path, key: str, progress: Progress | None = None) -> None:
    whole = partial(_write_whole, path, progress)
    write_cached((*_SUMMARY, EVENTS), (path,), whole, key)


def _cached_events(path: Path, key: str, tables: Mapping[str, CachedTable]) -> Path:
    """The file of EVENTS, which is written now, from as much of the source as was read before."""
    row = tables[TIMELINES.name].frame().iloc[0]
    clock = own_clock(str(row["time_zero"]))
    steps = inferred_times_of_table(tables[INFERRED_STEPS.name].frame())
    size = int(row["text_bytes"])
    write = partial(write_events, path, EventContext(clock, steps), size)
    try:
        write_cached((EVENTS,), (path,), write, key)
    except NotInPartsError:
        # The numba that read it in parts before is gone, or another one refuses a loop.
        _cache_whole(path, key)
    files = cached_files((EVENTS,), (path,), key)
    if files is None:
        raise StorageError(f"The events of {shown_name(path)} could not be put into a cache.")
    num_rows = pq.read_metadata(opened(files[EVENTS.name])).num_rows
    if num_rows != row["num_events"]:
        files[EVENTS.name].unlink()
        raise UnreadableInputError(
            f"{shown_name(path)} was replaced while it was read.", hint="Read it again."
        )
    return files[EVENTS.name]


def _write_whole(
    path: Path, progress: Progress | None, writers: Mapping[str, TableWriter], folder: Path
) -> None:
    """Write all tables of a file that must be in memory as a whole to be understood."""
    file = read_timeline_file(path, progress=progress)
    blocks = timeline_blocks((shown_name(path), ""), file, timeline_clock(file, None), None)
    if len(file.rows):
        blocks[TIMELINES.name] = block_of(timeline_file_row(shown_name(path), "", file.summary))
    blocks[NOTES.name] = block_of(notes_frame(file.problems))
    for name, block in blocks.items():
        writers[name].append(partial(dict, block))


@dataclass(frozen=True, slots=True)
class EventContext:
    """What rows of EVENTS need to know of the whole file."""

    clock: TimelineClock
    steps: StepTimes


def write_summary(
    path: Path, writers: Mapping[str, TableWriter], folder: Path, *, progress: Progress
) -> None:
    """Read a timeline and write all of its tables but EVENTS.

    Args:
        path: The file.
        writers: The files of the tables by name: TENSOR_USES, EXECUTIONS, INFERRED_STEPS,
            PENDING_NEGOTIATIONS, TIMELINES and NOTES.
        folder: Has room for temporary files.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        NotInPartsError: The file must be read as a whole.
        UnreadableInputError: It holds nothing usable.
        OSError: It cannot be read, or the folder cannot be written to.
    """
    spool = PartSpool[tuple[UseRows, ExecutionRows]](folder)
    with spool as rows, PartSpool[Reductions](folder) as reductions:

        def take(part: Semantics) -> None:
            rows.append((use_rows(part), execution_rows(part)))
            reductions.append(part.reductions)

        read = read_in_parts(path, take, progress=progress)
        if not read.raw.num_timed:
            raise NotInPartsError
        summary = summary_of(read.raw, read.counts, infer_steps(reductions.parts))
        clock = own_clock(summary.facts.time_zero)
        steps = inferred_times(summary.steps, clock)
        name = (shown_name(path), "")
        for uses, executions in rows.parts():
            use = partial(use_block, name, uses.with_ties(summary.facts.cycle), clock, steps)
            _append(writers[TENSOR_USES.name], len(uses), use)
            execution = partial(execution_block, name, executions, clock, steps)
            _append(writers[EXECUTIONS.name], len(executions), execution)
        pending = partial(pending_block, name, summary, clock)
        _append(writers[PENDING_NEGOTIATIONS.name], len(summary.pending), pending)
        inferred = partial(inferred_block, name, summary.steps, clock)
        _append(writers[INFERRED_STEPS.name], len(summary.steps), inferred)
        writers[TIMELINES.name].append(partial(block_of, timeline_file_row(*name, summary)))
        writers[NOTES.name].append(partial(block_of, notes_frame(summary.problems)))


def write_events(
    path: Path, context: EventContext, size: int, writers: Mapping[str, TableWriter], folder: Path
) -> None:
    """Read a timeline and write EVENTS.

    Args:
        path: The file.
        context: What ``write_summary`` found.
        size: Bytes of the file to read; it may have grown since.
        writers: The file of EVENTS by name.
        folder: Not used: no row waits for the end of the file.

    Raises:
        OSError: It cannot be read, or the folder cannot be written to.
    """

    def take(part: Semantics) -> None:
        rows = event_rows(part)
        block = partial(event_block, (shown_name(path), ""), rows, context.clock, context.steps)
        _append(writers[EVENTS.name], len(rows), block)

    read_in_parts(path, take, size=size)


def _append(writer: TableWriter, length: int, make: partial[Block]) -> None:
    if length:
        # The block is made here, and encoded by the thread of the writer meanwhile.
        writer.append(partial(dict, make()))
