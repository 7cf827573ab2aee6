"""A large timeline to the files that keep its tables, in parts that go through memory.

The rows of EVENTS, most of all, are written while the file is read. Their step hangs on the whole
file, so it is presumed, and proven in the end; where the proof fails the file is read once more,
with the steps known. Rows of the other tables wait on disk for what is known in the end.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hvdprof.ingest.storage.blocks import Block, block_of
from hvdprof.ingest.storage.parquet_cache import TableWriter
from hvdprof.ingest.tables.event_tables import (
    StepTimes,
    TimelineClock,
    event_block,
    inferred_times,
    own_clock,
    timeline_blocks,
    timeline_clock,
)
from hvdprof.ingest.tables.timeline_file_row import timeline_file_row
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.timeline.horovod_timeline import (
    PartRows,
    Summary,
    TimelineFile,
    file_of,
    part_rows,
    summary_of,
)
from hvdprof.ingest.timeline.meaning.file_facts import time_zero_of
from hvdprof.ingest.timeline.meaning.reductions import Reductions
from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.speculative_steps import PresumedSteps
from hvdprof.ingest.timeline.meaning.step_inference import infer_steps
from hvdprof.ingest.timeline.meaning.timeline_rows import EventRows
from hvdprof.ingest.timeline.streaming.part_spool import PartSpool
from hvdprof.ingest.timeline.streaming.stream import NotInPartsError, read_in_parts
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS

_MOST_PENDING = 8
"""So many parts wait for the first steps to show."""

_NEVER_NS = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Known:
    """What rows of EVENTS need to know of the whole file."""

    clock: TimelineClock
    steps: StepTimes


class NotAsPresumedError(Exception):
    """Rows were written with steps that are not those of the whole file; ``known`` are those."""

    def __init__(self, known: Known) -> None:
        super().__init__("the file does not go on as it begins")
        self.known = known


def write_timeline(
    path: Path,
    writers: Mapping[str, TableWriter],
    folder: Path,
    *,
    progress: Progress,
    known: Known | None = None,
) -> None:
    """Read a timeline and write all of its tables.

    Args:
        path: The file.
        writers: The files of the tables by name: EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS,
            TIMELINES and NOTES.
        folder: Has room for what is put aside.
        progress: Called with the bytes of the file read so far and its size.
        known: Of an earlier reading.

    Raises:
        NotAsPresumedError: All must be written anew, with what is known now.
        NotInPartsError: The file must be read as a whole.
        UnreadableInputError: It holds nothing usable.
        OSError: It cannot be read, or the folder cannot be written to.
    """
    events = _EventWriter(str(path), writers[EVENTS.name], known)
    num_executions = 0
    with PartSpool[PartRows](folder) as others, PartSpool[Reductions](folder) as reductions:

        def take(part: Semantics) -> None:
            nonlocal num_executions
            rows = part_rows(part, num_executions)
            num_executions += len(part.batches)
            reductions.append(part.reductions)
            events.add(rows.events, part)
            others.append(replace(rows, events=rows.events.cut(slice(0))))

        read = read_in_parts(path, take, progress=progress)
        if not read.raw.num_timed:
            raise NotInPartsError
        summary = summary_of(read.raw, read.counts, infer_steps(reductions.parts))
        clock = own_clock(summary.facts.time_zero)
        events.finish(Known(clock, inferred_times(summary.steps, clock)))
        for rows in others.parts():
            _write_others(str(path), writers, rows, summary)
        _write_whole(str(path), writers, rows, summary)


class _EventWriter:
    """Writes the rows of EVENTS, with steps and clock that are known or presumed."""

    def __init__(self, name: str, writer: TableWriter, known: Known | None) -> None:
        self._name, self._writer, self._known = name, writer, known
        self._steps = PresumedSteps()
        self._clock: TimelineClock | None = None
        self._pending: list[EventRows] = []
        self._presumed: list[tuple[int, int]] = []

    def add(self, rows: EventRows, part: Semantics) -> None:
        """Take the rows of the next part."""
        if self._known is not None:
            self._write(rows, self._known)
            return
        if self._clock is None and part.raw.range_us is not None:
            self._clock = own_clock(time_zero_of(part.raw.epochs, part.raw.range_us[0]))
        self._steps.add(part.reductions)
        self._pending.append(rows)
        if len(self._pending) >= _MOST_PENDING:
            self._steps.settle()
        if self._steps.is_decided and self._clock is not None:
            self._write_pending(self._clock)

    def _write_pending(self, clock: TimelineClock) -> None:
        """Write what waits but for the last part: behind the last step there may be more rows."""
        starts_ns = self._steps.starts_us * 1000 + clock.zero_ns
        ends_ns = np.append(starts_ns, _NEVER_NS)[1:]
        presumed = Known(clock, StepTimes(np.arange(len(starts_ns)), starts_ns, ends_ns))
        *ready, last = self._pending
        for rows in ready:
            if len(rows):
                latest_ns = int(rows.start_us.max()) * 1000 + clock.zero_ns
                self._presumed.append((len(starts_ns), latest_ns))
                self._write(rows, presumed)
        self._pending = [last]

    def finish(self, known: Known) -> None:
        """Write the rest, when all is known.

        Raises:
            NotAsPresumedError: What was presumed before is not so.
        """
        if self._presumed and not self._is_proven(known):
            raise NotAsPresumedError(known)
        for rows in self._pending:
            self._write(rows, known)

    def _is_proven(self, known: Known) -> bool:
        """Whether every row that is written has the step that it has with all known."""
        starts, ends = known.steps.starts_ns, known.steps.ends_ns
        presumed = self._steps.starts_us[: max(number for number, _ in self._presumed)] * 1000
        same = len(presumed) <= len(starts) and np.array_equal(presumed, starts[: len(presumed)])
        if known.clock != self._clock or not same or np.any(np.diff(starts) < 0):
            return False
        # The step that was the last then must reach beyond all of the part's rows.
        bounds = np.append(starts, ends[-1:] if len(ends) else _NEVER_NS)
        return all(latest_ns < bounds[number] for number, latest_ns in self._presumed)

    def _write(self, rows: EventRows, known: Known) -> None:
        if len(rows):
            self._writer.append(
                functools.partial(event_block, self._name, "", rows, known.clock, known.steps)
            )


def _write_others(
    name: str, writers: Mapping[str, TableWriter], part: PartRows, summary: Summary
) -> None:
    """Write the rows of a part that are not of EVENTS."""
    for table, block in _blocks(name, file_of(part, summary)).items():
        if table != INFERRED_STEPS.name:
            writers[table].append(functools.partial(_as_it_is, block))


def _write_whole(
    name: str, writers: Mapping[str, TableWriter], last: PartRows, summary: Summary
) -> None:
    """Write what stands for the whole file, with its last part."""
    file = file_of(last, summary)
    steps = _blocks(name, file).get(INFERRED_STEPS.name)
    if steps is not None:
        writers[INFERRED_STEPS.name].append(functools.partial(_as_it_is, steps))
    row = timeline_file_row(name, "", file)
    writers[TIMELINES.name].append(functools.partial(block_of, row))
    notes = NOTES.frame({"note": summary.problems})
    writers[NOTES.name].append(functools.partial(block_of, notes))


def _blocks(name: str, file: TimelineFile) -> dict[str, Block]:
    return timeline_blocks(name, "", file, timeline_clock(file, None), None)


def _as_it_is(block: Block) -> Block:
    return block
