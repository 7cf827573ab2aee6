"""A run directory to tables."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import ProgressCallback
from hvdprof.ingest.recorder.light_steps import steps_from_windows
from hvdprof.ingest.recorder.line_files import lines_of_rank, samples_of_rank
from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.ingest.recorder.session_rows import (
    alignment_of,
    exclude_evaluations,
    exclude_profiled,
    others_in,
    session_ranks,
)
from hvdprof.ingest.rundir.pass_logs import with_logs
from hvdprof.ingest.rundir.run_files import with_ddp_facts, with_forecasts, with_network, with_turns
from hvdprof.ingest.rundir.segment_block import (
    mark_reached,
    segment_block,
    with_reached_statuses,
    with_seen_engines,
)
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.parquet_cache import cached_frames
from hvdprof.ingest.tables.event_tables import StepTimes
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.notes import Note, NoteCode, notes_in
from hvdprof.model.run import Run
from hvdprof.model.tables.line_tables import LINE_TABLES
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.model.tables.run_tables import (
    ARRIVALS,
    EVENTS,
    GRADIENTS,
    RANKS,
    SEGMENTS,
    STEPS,
    WAITS,
)
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.model.tables.window_tables import EVALUATIONS, SESSION_RANKS, WINDOWS
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.attached import AttachedKind, attached_files
from hvdprof.rundir.gpu_crowd import gpu_crowd, of_header
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, SegmentRecord, Status
from hvdprof.rundir.regular_file import NotRegularFileError, checked_inside, shown_name, unreadable

_TABLES = (
    *(SEGMENTS, RANKS, STEPS, EVALUATIONS, GRADIENTS, ARRIVALS, WAITS, WINDOWS),
    *LINE_TABLES,
    *(EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS, PENDING_NEGOTIATIONS, TIMELINES),
    *(SESSION_RANKS, RANK_COLLECTIVES, NOTES),
)
_STARTED = (Status.RUNNING, Status.DONE, Status.FAILED, Status.INTERRUPTED)


class _Reading:
    """Reports how many bytes of the files of a run have been read."""

    def __init__(
        self, folder: Path, sources: Sequence[Path], progress: ProgressCallback | None
    ) -> None:
        self._folder, self._progress = folder, progress
        self._sizes = {path: path.stat().st_size for path in sources}
        self._done = 0
        self.total = sum(self._sizes.values())

    @contextlib.contextmanager
    def file(self, path: Path) -> Iterator[Callable[[int, int], None]]:
        """Around the reading of a file; takes the bytes of it read so far, and its size.

        Raises:
            NotRegularFileError: A link leads out of the run directory.
        """
        checked_inside(self._folder, path)
        self.report(path, 0)
        size = self._sizes.get(path, 0)
        try:
            yield lambda done, _: self.report(path, min(done, size))
        finally:
            self._done += size

    def report(self, path: Path, done: int) -> None:
        """Take the bytes read so far of all files that are being read, ``path`` among them."""
        if self._progress is not None:
            self._progress(shown_name(path), self._done + done, self.total)


def load_run_directory(folder: Path, *, progress: ProgressCallback | None = None) -> Run:
    """The run that a folder holds; ``notes`` say what is missing or damaged in it.

    A run that is still going on, or was broken off, loads with what there is.

    Args:
        folder: The run directory.
        progress: Called with the file that is being read; never for tables that are in the cache.

    Raises:
        UnreadableInputError: The folder has no manifest, or one that cannot be read; or a file is
            gone since the folder was listed.
    """
    manifest = Manifest.read(folder)
    try:
        run = with_reached_statuses(_loaded(folder, manifest, progress))
    except OSError as error:
        raise unreadable(Path(error.filename or folder), error) from error
    run = with_forecasts(with_ddp_facts(with_network(with_logs(with_turns(run)))))
    homes = (RunPaths(folder).of_pass(record.id).flight_folder for record in manifest.passes)
    if not attached_files(manifest) and not any(home.is_dir() for home in homes):
        return run
    # Readers of other recorders take longer to import than a small run to read.
    from hvdprof.ingest.rundir.flight_files import with_flight_files, with_recordings

    return with_flight_files(with_recordings(run))


def _loaded(folder: Path, manifest: Manifest, progress: ProgressCallback | None) -> Run:
    # The manifest, then every file of the passes: a run in progress gets new ones.
    found = sorted(folder.glob("passes/*/*/*"))
    sources = [RunPaths(folder).manifest, *(path for path in found if _is_file_of(folder, path))]
    reading = _Reading(folder, sources, progress)
    if reading.total < parquet_cache.CACHE_FROM_BYTES:
        return _parsed(folder, manifest, reading)
    frames = cached_frames(_TABLES, sources, lambda: _frames_of(_parsed(folder, manifest, reading)))
    notes = notes_in(frames[NOTES.name])
    known = {name: rows for name, rows in frames.items() if len(rows)}
    return Run(folder, manifest, known, notes)


def load_throughput(folder: Path) -> Run:
    """The throughput passes of a run directory, of a run in progress too; nothing is cached.

    Raises:
        UnreadableInputError: The folder has no manifest, or one that cannot be read.
    """
    manifest = Manifest.read(folder)
    passes = [record for record in manifest.passes if record.mode == Mode.THROUGHPUT]
    return with_turns(_parsed(folder, replace(manifest, passes=passes), _Reading(folder, [], None)))


def _is_file_of(folder: Path, path: Path) -> bool:
    try:
        return checked_inside(folder, path).is_file()
    except NotRegularFileError:
        return False


def _frames_of(run: Run) -> dict[str, pd.DataFrame]:
    return {table.name: run.table(table.name) for table in _TABLES}


def _parsed(folder: Path, manifest: Manifest, reading: _Reading) -> Run:
    tables = RunBuilder()
    attached = attached_files(manifest)
    traces, logs = (
        [folder / file.copy for file in attached if file.kind == kind]
        for kind in (AttachedKind.TRACE, AttachedKind.PHASE_LOG)
    )
    for record in manifest.passes:
        if traces or logs:
            _add_traced(record, traces, logs, tables, reading)
            continue
        # What an elastic launch recorded lies with its sessions.
        has_recorder = not attached and record.session != 0
        paths = RunPaths(folder).of_pass(record.id)
        files = _recorder_files(record, paths, tables.notes, reading) if has_recorder else {}
        _add_pass(manifest, record, paths, files, tables, reading)
    blocks = tables.blocks
    if WAITS.name in blocks:
        blocks[SEGMENTS.name] = with_seen_engines(blocks[SEGMENTS.name], blocks[WAITS.name])
    return tables.run(folder, manifest)


def _add_traced(
    record: PassRecord,
    traces: Sequence[Path],
    logs: Sequence[Path],
    tables: RunBuilder,
    reading: _Reading,
) -> None:
    """Add the traces of torch.profiler, or the phase logs, that a pass is made of."""
    from hvdprof.ingest.file_entry import FileEntry
    from hvdprof.ingest.kineto.traced_pass import read_traces, traced_blocks
    from hvdprof.ingest.phase_logs import add_phase_logs
    from hvdprof.ingest.recognise import recognise
    from hvdprof.model.file_page import PHASE_LOG

    try:
        with contextlib.ExitStack() as stack:
            for path in (*traces, *logs):
                stack.enter_context(reading.file(path))
            if logs:
                entries = [FileEntry(recognise(path), PHASE_LOG) for path in logs]
                add_phase_logs(entries, tables, record)
                return
            found = read_traces(traces, tables.notes, progress=reading.report)
    except UnreadableInputError as error:
        tables.notes.append(Note(NoteCode.UNREADABLE, error.message).at(record.id, record.id))
        return
    for table, block in traced_blocks(found, record):
        tables.add_block(table, block)


def _add_pass(
    manifest: Manifest,
    record: PassRecord,
    paths: PassPaths,
    files: dict[int, RecorderFile],
    tables: RunBuilder,
    reading: _Reading,
) -> None:
    exclude_profiled(files.values())
    steps_from_windows(files.values())
    for rank, why in others_in(files).items():
        tables.notes.append(why.at(f"{record.id}: recording of rank {rank}", record.id, [rank]))
        del files[rank]
    exclude_evaluations(files.values())
    mark_reached(manifest, record, files)
    if record.session:
        tables.add_tables([(SESSION_RANKS.name, session_ranks(record, files))])
    alignments = {rank: alignment_of(file, files.get(0)) for rank, file in files.items()}
    lines_files = paths.lines_files()
    for rank, file in files.items():
        tables.add_recording(record.id, rank, file, alignments[rank])
        lines, clauses = lines_of_rank(lines_files.get(rank, ()), file, reading.file)
        for table, block in lines.blocks(record.id, rank, alignments[rank]):
            tables.add_block(table, block)
        samples, more = samples_of_rank(paths.samples_file(rank), reading.file)
        for table, block in samples.blocks(record.id, rank, alignments[rank]):
            tables.add_block(table, block)
        clauses += more
        where = f"{record.id}: rank {rank}"
        tables.notes += [clause.at(where, record.id, [rank]) for clause in clauses]
    places = (of_header(file.header, file.host_fact("hostname") or "") for file in files.values())
    crowd = gpu_crowd(places, manifest)
    for segment in record.segments:
        tables.add_block(SEGMENTS, segment_block(record, segment, files, crowd))
        if segment.segment.timeline and segment.status in _STARTED and record.session != 0:
            _add_timeline(record, segment, paths, files, tables, reading)


def _recorder_files(
    record: PassRecord, paths: PassPaths, notes: list[Note], reading: _Reading
) -> dict[int, RecorderFile]:
    files = {}
    missing = []
    # The same problem of all ranks of a large job is one note.
    ranks_of: dict[Note, list[int]] = {}
    for rank in range(record.size):
        path = paths.recorder_file(rank)
        try:
            with reading.file(path):
                files[rank] = read_recorder_file(path)
        except FileNotFoundError:
            missing.append(rank)
            continue
        except OSError as error:
            clause = Note(NoteCode.UNREADABLE, f"rank {rank} could not be read: {error.strerror}")
            notes.append(clause.at(record.id, record.id, [rank]))
            continue
        for clause in files[rank].clauses(is_over=record.status != Status.RUNNING):
            ranks_of.setdefault(clause, []).append(rank)
    for clause, ranks in ranks_of.items():
        where = f"{record.id}: recording of {ranks_named(ranks)}"
        notes.append(clause.at(where, record.id, ranks))
    if missing and record.status in _STARTED:
        clause = Note(NoteCode.NO_RECORDING, f"no recording of {ranks_named(missing)}")
        notes.append(clause.at(record.id, record.id, missing))
    return files


def _add_timeline(
    record: PassRecord,
    segment: SegmentRecord,
    paths: PassPaths,
    files: Mapping[int, RecorderFile],
    tables: RunBuilder,
    reading: _Reading,
) -> None:
    from hvdprof.ingest.timeline.horovod_timeline import read_timeline_file

    name, rank_0 = segment.segment.id, files.get(0)
    path = paths.timeline(name)
    where = f"{record.id}: timeline of {name}"
    try:
        with reading.file(path) as within:
            file = read_timeline_file(path, progress=within)
    except FileNotFoundError:
        clause = Note(NoteCode.NO_TIMELINE, f"no timeline of {name}")
        tables.notes.append(clause.at(record.id, record.id))
        return
    except OSError as error:
        tables.notes.append(Note(NoteCode.UNREADABLE, str(error.strerror)).at(where, record.id))
        return
    problems = list(file.problems)
    # Where no rank was recorded there is no clock to be placed on.
    if files and rank_0 is None and file.epoch_us is not None:
        text = "without a recording of rank 0 it cannot be placed on its clock"
        problems.append(Note(NoteCode.NO_CLOCK, text))
    tables.notes += [clause.at(where, record.id) for clause in problems]
    # Steps are inferred from the timeline only where no rank recorded them.
    steps = _steps_of(rank_0, name) if files else None
    tables.add_timeline(record.id, name, file, rank_0, steps)


def _steps_of(rank_0: RecorderFile | None, segment: str) -> StepTimes:
    recording = rank_0.segments.get(segment) if rank_0 else None
    if recording is None:
        return StepTimes(*(np.empty(0, np.int64),) * 3)
    table = recording.step_table()
    table = table[np.argsort(table[:, 2], kind="stable")]
    return StepTimes(table[:, 0], table[:, 2], table[:, 2] + table[:, 3])
