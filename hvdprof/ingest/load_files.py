"""Standalone files to tables: recordings, timelines and logs without a manifest.

The readers of a kind of file are imported with its first file: each takes longer than a small file.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.file_entry import (
    FileEntry,
    ProgressCallback,
    refuse_all,
    session_notes,
    uncompared_throughputs,
)
from hvdprof.ingest.nccl.joining import jobs_of
from hvdprof.ingest.rank_calls import add_recordings
from hvdprof.ingest.recognise import Found, Kind, Recognised
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.notes import Note
from hvdprof.model.run import Run
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.rank_collective_tables import INSPECTOR_COLLECTIVES, RANK_COLLECTIVES
from hvdprof.plain_text import printable
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.regular_file import shown_name

if TYPE_CHECKING:
    from hvdprof.ingest.logs.printed_file import PrintedFile

_READ_TOGETHER = (Kind.RECORDER, Kind.SAMPLES, Kind.FLIGHT_RECORDER, Kind.PHASE_LOG)

Read = Callable[[Path], Iterable[tuple[str, pd.DataFrame]]]


def load_files(
    found: Found, first: Path, *, progress: ProgressCallback | None = None, jobs: int | None = None
) -> Run:
    """The run that some files make up together; files that hold nothing usable are noted.

    The tables of large timelines are in the cache and loaded at their first use.

    Args:
        found: The files.
        first: The first path that the user named.
        progress: Called with the file that is being read.
        jobs: How many traces or logs are read at once, at most eight; None for as many as there
            are cores.

    Raises:
        UnreadableInputError: Nothing usable is in them.
    """
    files = found.files
    builder = RunBuilder()
    builder.notes += found.notes
    report = progress or (lambda file, done, total: None)
    total = sum(file.size_bytes for file in files)
    done = 0
    entries = []
    dumps = [file for file in files if file.kind == Kind.FLIGHT_RECORDER]
    traces = [file for file in files if file.kind == Kind.TRACE]
    # The traceback of an interruption holds the iterator, and so the readers.
    with contextlib.closing(_printed(files, jobs, report, total)) as printed:
        for file in files:
            report(file.name, done, total)
            if file.kind == Kind.TRACE:
                continue
            if file.kind not in _READ_TOGETHER:
                within = functools.partial(_progress_within, report, file, done, total)
                entries.append(_add_file(file, builder, within, printed))
            done += file.size_bytes
    entries += add_recordings(files, builder)
    entries += _add_dumps(dumps, builder)
    if builder.frames.keys() & {INSPECTOR_COLLECTIVES.name, RANK_COLLECTIVES.name}:
        from hvdprof.ingest.rank_calls import match_rank_calls

        match_rank_calls(builder)
    _add_nccl(entries, builder, report)
    manifest = _add_traces(traces, entries, builder, report, jobs)
    logs = [FileEntry(file, file.what) for file in files if file.kind == Kind.PHASE_LOG]
    if logs and manifest is None:
        from hvdprof.ingest.phase_logs import add_phase_logs

        manifest = add_phase_logs(logs, builder)
    entries += logs
    if not any(entry.num_rows for entry in entries):
        refuse_all(entries, builder.notes)
    builder.notes += session_notes(builder.frames)
    builder.add_tables([(FILES.name, _file_rows(entries))])
    name = printable(first.name) if len(files) == 1 else f"{len(files)} files"
    if manifest is not None:
        return builder.run(first, replace(manifest, name=name))
    return builder.run(first, Manifest.of_files(name), recorded=False)


def _add_traces(
    traces: Sequence[Recognised],
    entries: list[FileEntry],
    builder: RunBuilder,
    report: ProgressCallback,
    jobs: int | None,
) -> Manifest | None:
    """The manifest of the job that profiler traces are of; None without a usable one.

    Raises:
        UnreadableInputError: Traces alone were given, and several recordings are possible.
    """
    if not traces:
        return None
    from hvdprof.ingest.kineto.standalone_traces import add_standalone_traces

    sizes = {trace.path: trace.size_bytes for trace in traces}
    total = sum(sizes.values())
    has_others = any(entry.num_rows for entry in entries)
    own = {trace.path: FileEntry(trace, trace.what) for trace in traces}
    entries += own.values()
    try:
        traced = add_standalone_traces(
            list(sizes), builder, lambda path, done: report(shown_name(path), done, total), jobs
        )
    except UnreadableInputError as error:
        if not has_others:
            raise
        builder.notes += dict.fromkeys(entry.fail(error) for entry in own.values())
        return None
    for path, num_events in traced.num_events.items():
        own[path].num_rows = num_events
    for path, reason in traced.left_out.items():
        own[path].fail(UnreadableInputError(reason))
    builder.notes += uncompared_throughputs(builder.frames)
    return traced.manifest


def _progress_within(
    report: ProgressCallback, found: Recognised, before: int, total: int, done: int, size: int
) -> None:
    report(found.name, before + min(done, size), total)


def _add_file(
    found: Recognised,
    builder: RunBuilder,
    within: Callable[[int, int], None],
    printed: Iterator["PrintedFile | Exception"],
) -> FileEntry:
    entry = FileEntry(found, found.what)
    try:
        if found.kind == Kind.TIMELINE:
            from hvdprof.ingest.tables.standalone_timeline import add_standalone_timeline

            entry.num_rows = add_standalone_timeline(found.path, builder, within)
        elif found.kind == Kind.NCCL_TESTS:
            from hvdprof.ingest.logs.nccl_tests.nccl_tests_json import read_nccl_tests_json

            notes: list[Note] = []
            entry.num_rows = builder.add_tables(read_nccl_tests_json(found.path, notes))
            builder.notes += [note.at(found.name) for note in notes]
        elif read := _reader_of(found.kind):
            entry.num_rows = builder.add_tables(read(found.path))
        elif found.kind == Kind.TEXT:
            _add_printed(entry, builder, next(printed))
        elif found.kind == Kind.ARCHIVE:
            raise UnreadableInputError(
                f"{found.name} is an archive; name it to read what it holds."
            )
    except (HvdprofError, OSError) as error:
        builder.notes.append(entry.fail(error))
    return entry


def _reader_of(kind: Kind) -> Read | None:
    """The reader of a kind of files that are read one by one."""
    if kind == Kind.RAS:
        from hvdprof.ingest.nccl.ras_json import read_ras_json

        return read_ras_json
    if kind == Kind.COMMS:
        from hvdprof.ingest.logs.deepspeed.deepspeed_json import read_comms_json

        return read_comms_json
    if kind == Kind.STACKS:
        from hvdprof.ingest.logs.process_stacks import read_stack_json

        return read_stack_json
    if kind == Kind.NSYS:
        from hvdprof.ingest.nsys.export_tables import read_nsys_export

        return read_nsys_export
    return None


def _printed(
    files: Sequence[Recognised], jobs: int | None, report: ProgressCallback, total: int
) -> Generator["PrintedFile | Exception"]:
    """What each text file holds, or why it cannot be read."""
    sizes = [0 if file.kind == Kind.TRACE else file.size_bytes for file in files]
    starts = dict(zip(files, itertools.accumulate(sizes, initial=0), strict=False))
    texts = [file for file in files if file.kind == Kind.TEXT]
    if texts:
        from hvdprof.ingest.logs.printed_file import read_printed_files

        yield from read_printed_files(
            texts, jobs, lambda file, done: report(file.name, starts[file] + done, total)
        )


def _add_printed(entry: FileEntry, builder: RunBuilder, file: "PrintedFile | Exception") -> None:
    if isinstance(file, Exception):
        raise file
    builder.notes += [clause.at(entry.found.name) for clause in file.notes]
    entry.num_lines = file.num_lines
    entry.num_rows = builder.add_tables(file.tables)
    entry.kind = ", ".join(file.kinds) or str(Kind.TEXT)
    entry.nccl_processes = file.nccl_processes


def _add_nccl(entries: Sequence[FileEntry], builder: RunBuilder, report: ProgressCallback) -> None:
    by_path = {entry.found.path: entry for entry in entries if entry.nccl_processes}
    if not by_path:
        return
    from hvdprof.ingest.nccl.reader import read_nccl_logs

    sizes = {path: entry.found.size_bytes for path, entry in by_path.items()}
    before = dict(zip(sizes, itertools.accumulate(sizes.values(), initial=0), strict=False))
    total = sum(sizes.values())
    for paths in jobs_of({path: entry.nccl_processes for path, entry in by_path.items()}):
        recording = read_nccl_logs(
            paths,
            progress=lambda path, done: report(
                by_path[path].found.name, before[path] + done, total
            ),
        )
        builder.nccl.append(recording)
        where = by_path[paths[0]].found.name
        if len(paths) > 1:
            where += f" and {len(paths) - 1} more"
        # The end of a compressed file that breaks off was reported when its other parts were read.
        fresh = [note for note in recording.notes if note not in builder.notes]
        builder.notes += [note.at(where) for note in fresh]
        num_lines = recording.line_kinds.groupby("file", observed=True)["count"].sum()
        for path in paths:
            entry = by_path[path]
            entry.num_rows += int(num_lines.get(entry.found.name, 0))
            entry.kind = "NCCL log" if entry.kind == Kind.TEXT else f"NCCL log, {entry.kind}"


def _add_dumps(found: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    if not found:
        return []
    from hvdprof.ingest.flight_recorder.dump_tables import add_dumps

    added = add_dumps(found, builder)
    return [
        FileEntry(
            file,
            file.what,
            num_rows=added.num_rows.get(file.name, 0),
            error=added.left_out.get(file.name),
        )
        for file in found
    ]


def _file_rows(entries: Sequence[FileEntry]) -> pd.DataFrame:
    rows = Rows(FILES)
    for entry in entries:
        rows.add(
            file=entry.found.name,
            kind=entry.kind,
            size_bytes=entry.found.size_bytes,
            num_lines=entry.num_lines,
            num_rows=entry.num_rows,
            left_out=entry.left_out,
        )
    return rows.frame()
