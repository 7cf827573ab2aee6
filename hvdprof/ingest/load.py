"""The entry point to ingest: other packages import only this module.

``load_run`` reads what a user names: a run directory, or files of any kind. ``attach`` puts
files that other tools wrote into a run directory.

Readers are imported when they are needed first: they take longer than the reading of a small file.
"""

import importlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.file_entry import FileEntry, refuse_all, run_alone
from hvdprof.ingest.file_entry import ProgressCallback as ProgressCallback
from hvdprof.ingest.recognise import Found, Recognised, recognise_all
from hvdprof.ingest.recognise import Kind as Kind
from hvdprof.ingest.recognise import recognise as recognise
from hvdprof.ingest.sources.listing import missing as missing
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.layout import is_run_directory as is_run_directory
from hvdprof.units import counted

if TYPE_CHECKING:
    from hvdprof.ingest.load_run import load_throughput as load_throughput
    from hvdprof.ingest.logs.scaling_text import SAMPLES_PER_S as SAMPLES_PER_S
    from hvdprof.ingest.logs.scaling_text import read_scaling_text as read_scaling_text
    from hvdprof.ingest.nsys.export_events import nsys_events as nsys_events
    from hvdprof.ingest.rundir.attach_sources import Given as Given
    from hvdprof.ingest.rundir.attached_run import Stated as Stated
    from hvdprof.ingest.rundir.attached_run import attach as attach
    from hvdprof.ingest.sources.workspace import small_text as small_text
    from hvdprof.ingest.storage.mapped_frame import release_pages as release_pages
    from hvdprof.ingest.storage.parquet_cache import cached_pieces as cached_pieces
    from hvdprof.ingest.timeline.horovod_timeline import SLOW_HINT as SLOW_HINT
    from hvdprof.ingest.timeline.horovod_timeline import is_slow as is_slow
    from hvdprof.ingest.timeline.machine_code import numba_refusal as numba_refusal
    from hvdprof.model.run import Run

_MODULES = {
    "SAMPLES_PER_S": "logs.scaling_text",
    "SLOW_HINT": "timeline.horovod_timeline",
    "Given": "rundir.attach_sources",
    "Stated": "rundir.attached_run",
    "attach": "rundir.attached_run",
    "cached_pieces": "storage.parquet_cache",
    "load_throughput": "load_run",
    "is_slow": "timeline.horovod_timeline",
    "nsys_events": "nsys.export_events",
    "numba_refusal": "timeline.machine_code",
    "read_scaling_text": "logs.scaling_text",
    "release_pages": "storage.mapped_frame",
    "small_text": "sources.workspace",
}


def __getattr__(name: str) -> object:
    """A name of another module of ingest.

    Raises:
        AttributeError: This module has no such name.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"hvdprof.ingest.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def load_run(
    paths: Sequence[Path],
    *,
    progress: ProgressCallback | None = None,
    np: Sequence[int] = (),
    jobs: int | None = None,
) -> "Run":
    """What a run directory holds, or any files together.

    Args:
        paths: One run directory; or files, folders of files, archives and patterns; ``-`` is
            standard input. A folder or archive with one run directory in it stands for this run.
        progress: Called with the file being read, the bytes read so far and the bytes of all files;
            never for tables that are in the cache.
        np: The number of ranks of each file in their order, or one for all: it counts where a file
            states none; none at all without.
        jobs: How many profiler traces are read at once, at most eight; as many as there are cores
            if None.

    Raises:
        UnreadableInputError: The paths hold nothing usable, or a run directory is among several.
        UsageError: There are other numbers of files than of ``np``.
    """
    if not paths:
        raise UnreadableInputError("No file was named.", hint="Give a run directory or files.")
    if len(paths) == 1 and is_run_directory(paths[0]):
        return _load_directory(paths[0], progress)
    with Workspace() as workspace:
        found = recognise_all(paths, workspace)
        if own := run_alone(found.files, is_one=len(paths) == 1):
            if workspace.holds(own.path):
                workspace.keep()
            run = _load_directory(own.path, progress)
            if beside := len(found.files) - 1:
                text = f"{counted(beside, 'file')} beside the run directory {own.name}: not read."
                found.notes.append(Note(NoteCode.NOT_READ, text, number=beside))
            return run.extended({}, found.notes)
        found.files = _with_np(found.files, np)
        run = _load_files(found, paths[0], progress, jobs)
        cached = [rows for tables in run.cached.values() for rows in tables.values()]
        if any(workspace.holds(rows.source) for rows in cached):
            workspace.keep()
        return run


def _with_np(files: list[Recognised], np: Sequence[int]) -> list[Recognised]:
    if len(np) not in (0, 1, len(files)):
        raise UsageError(
            f"--np has {len(np)} numbers of ranks for {counted(len(files), 'file')}.",
            hint=f"Give one for each file, in this order: {', '.join(f.name for f in files[:4])}.",
        )
    stated = itertools.cycle(np or [None])
    return [replace(file, np=number) for file, number in zip(files, stated, strict=False)]


def _load_files(
    found: Found, first: Path, progress: ProgressCallback | None, jobs: int | None
) -> "Run":
    if all(file.kind in (Kind.FOREIGN, Kind.ARCHIVE) for file in found.files):
        refuse_all([FileEntry(file, file.what) for file in found.files], found.notes)
    from hvdprof.ingest.load_files import load_files

    return load_files(found, first, progress=progress, jobs=jobs)


def _load_directory(folder: Path, progress: ProgressCallback | None) -> "Run":
    from hvdprof.ingest.load_run import load_run_directory

    return load_run_directory(folder, progress=progress)
