"""A large timeline to cached tables, part by part, so that its rows are never in memory at once.

The first reading writes every table but EVENTS, whose rows are ten times as many. The steps and the
cycle of Horovod's loop are known at the end of the file: rows wait on disk until then. EVENTS are
written by a second reading, at their first use, with the steps known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hvdprof.ingest.storage.blocks import Block, block_of
from hvdprof.ingest.storage.cached_table import TableWriter
from hvdprof.ingest.tables.event_tables import (
    StepTimes,
    TimelineClock,
    event_block,
    execution_block,
    inferred_block,
    inferred_times,
    own_clock,
    pending_block,
    use_block,
)
from hvdprof.ingest.tables.timeline_file_row import timeline_file_row
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.timeline.horovod_timeline import summary_of
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
from hvdprof.model.notes import notes_frame
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
    path: Path,
    context: EventContext,
    size: int,
    writers: Mapping[str, TableWriter],
    folder: Path,
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
