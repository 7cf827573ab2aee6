"""A run directory made of files that the user has: timelines, traces, logs, other recordings."""

import contextlib
import datetime as dt
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from hvdprof import __version__
from hvdprof.errors import HvdprofError, StorageError, UnreadableInputError, UsageError
from hvdprof.ingest.kineto.traced_pass import traced_pass
from hvdprof.ingest.phase_logs import phases_pass
from hvdprof.ingest.rundir.attach_sources import (
    Given,
    Read,
    Source,
    paths_of,
    read_sources,
    sources_of,
)
from hvdprof.ingest.rundir.attached_size import (
    Counted,
    attached_engine,
    attached_size,
    copies_of,
    distinct,
    name_in_run,
)
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.model.cell_key import UNKNOWN
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files, attached_settings
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import (
    MANIFEST_SCHEMA_VERSION,
    Manifest,
    Mode,
    PassRecord,
    SegmentRecord,
    Status,
)
from hvdprof.rundir.masking import mask_command
from hvdprof.rundir.plan import Segment
from hvdprof.rundir.regular_file import open_regular, unreadable
from hvdprof.rundir.written_file import (
    OVERWRITE_HINT,
    append_run_bytes,
    make_place,
    make_run_folders,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says of the job, because its files may not: None where nothing was said.

    ``size`` counts ranks, ``batch_size`` samples per rank and step.
    """

    name: str
    size: int | None = None
    batch_size: int | None = None


def attach(folder: Path, given: Given, stated: Stated, *, overwrite: bool = False) -> Manifest:
    """Copy files into a new run directory of one pass; it appears whole or not at all.

    Every timeline becomes a segment. The rank of an output comes from its name, such as
    ``rank.1/stdout``; tags of launchers before its lines are read later.

    Args:
        folder: The run directory to make.
        given: The files.
        stated: What the user says of the job.
        overwrite: Whether a run directory that was made of files before may be replaced.

    Returns:
        The manifest; ``warnings`` holds what the files contradict, and the files left out.

    Raises:
        UsageError: No file was given, or nothing says how many ranks there were.
        UnreadableInputError: A file is not what it is given for.
        StorageError: The folder is there already, or cannot be written.
    """
    with Workspace() as workspace:
        found = sources_of(given, workspace)
        if not (found.sources or found.refused):
            raise UsageError(
                "There is nothing to attach.",
                hint="Name the files of the job: hvdprof attach RUNDIR FILE...",
            )
        _refuse_what_is_there(folder, overwrite=overwrite)
        read = read_sources(found.sources)
        # A later reader of the run directory cannot see a file that was never of use.
        left_out = {error.message: error for error in (*found.refused, *read.left_out.values())}
        sources = [source for source in found.sources if source.path not in read.left_out]
        if not sources:
            _refuse_all(list(left_out.values()))
        record, counted = _recorded(sources, read, stated)
        copies = copies_of(sources, record)
        manifest = _manifest(record, copies, stated.name)
        manifest.warnings += left_out
        if counted.size is not None and counted.size != record.size:
            manifest.warnings.append(
                f"--np {record.size} was stated, but {counted.reason} {counted.size} ranks."
            )
        with _appearing_whole(folder) as building:
            for source, copy in copies:
                _copy(source.path, building / copy.copy)
            manifest.write(RunPaths(building))
        return manifest


_HINT = "Give the files of one job. `hvdprof analyze FILE` says what a file holds."


def _refuse_all(errors: Sequence[HvdprofError]) -> NoReturn:
    """Raise the one error, or all of them as one."""
    hint = next((error.hint for error in errors if error.hint), _HINT)
    if len(errors) == 1:
        raise errors[0] if errors[0].hint else UnreadableInputError(errors[0].message, hint=hint)
    lines = "\n  ".join(error.message for error in errors)
    raise UnreadableInputError(f"No file can be attached:\n  {lines}", hint=hint)


def _recorded(sources: Sequence[Source], read: Read, stated: Stated) -> tuple[PassRecord, Counted]:
    """The pass that files are, and the ranks that they show.

    Raises:
        UsageError: Nothing says how many ranks there were.
    """
    outputs = {source.path: source.rank for source in sources if source.kind == AttachedKind.OUTPUT}
    if read.traced is not None:
        counted = Counted(read.traced.size, "the traces are those of", is_uncached=False)
    elif read.num_phases is not None:
        counted = Counted(read.num_phases, "the phase logs are those of", is_uncached=False)
    else:
        counted = attached_size(
            timelines=read.timelines,
            nccl_logs=paths_of(sources, AttachedKind.NCCL_LOG),
            outputs=outputs,
            recordings=read.recordings,
        )
    size, batch_size = stated.size or counted.size, stated.batch_size or 0
    if size is None:
        raise UsageError(
            "Nothing in these files says how many ranks the job had.", hint="Add --np N."
        )
    if read.traced is not None:
        traced = read.traced
        record = traced_pass(size, stated.name, traced.controller, traced.engine, batch_size)
    elif read.num_phases is not None:
        record = phases_pass(size, stated.name, batch_size)
    else:
        timelines = paths_of(sources, AttachedKind.TIMELINE)
        engine = attached_engine(
            timelines=timelines, outputs=list(outputs), recordings=read.recordings
        )
        record = _pass(timelines, size, stated, engine, is_uncached=counted.is_uncached)
    return record, counted


def _refuse_what_is_there(folder: Path, *, overwrite: bool) -> None:
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
    except OSError as error:
        raise StorageError(f"{folder} cannot be looked at: {error.strerror}.") from error
    try:
        is_ours = bool(attached_files(Manifest.read(folder)))
    except UnreadableInputError:
        is_ours = False
    if not is_ours:
        raise StorageError(
            f"{folder} exists and was not made by hvdprof attach: the run directory to make comes "
            "first.",
            hint=f"hvdprof attach CASE {folder} ...",
        )
    if not overwrite:
        raise StorageError(f"{folder} exists and is not overwritten.", hint=OVERWRITE_HINT)


def _pass(
    timelines: Sequence[Path], size: int, stated: Stated, engine: str, *, is_uncached: bool
) -> PassRecord:
    mode = Mode.THROUGHPUT
    if timelines:
        mode = Mode.ATTRIBUTION if is_uncached else Mode.TRACE
    names = distinct([name_in_run(path).split(".")[0] for path in timelines]) or ["main"]
    segments = [
        Segment(
            id="main" if len(names) == 1 else name,
            engine=engine,
            model=stated.name,
            compression=UNKNOWN,
            reduction=UNKNOWN,
            batch_size=stated.batch_size or 0,
            image_size=0,
            num_warmup_batches=0,
            num_steps=None,
            max_seconds=None,
            timeline=bool(timelines),
        )
        for name in names
    ]
    return PassRecord(
        id=f"01-np{size}-attached",
        mode=mode,
        size=size,
        repeat=1,
        controller=UNKNOWN,
        oversubscribed=False,
        pinned=False,
        segments=[SegmentRecord(segment=segment, status=Status.DONE) for segment in segments],
        status=Status.DONE,
    )


def _manifest(
    record: PassRecord, copies: Sequence[tuple[Source, AttachedFile]], name: str
) -> Manifest:
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version=__version__,
        name=name,
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        command=mask_command(["hvdprof", *sys.argv[1:]]),
        settings=attached_settings([copy for _, copy in copies]),
        environment={},
        versions={},
        hosts=[],
        git=None,
        passes=[record],
        skipped=[],
        status=Status.DONE,
    )


@contextlib.contextmanager
def _appearing_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name when the block ends without an exception."""
    try:
        make_place(folder.absolute())
        building = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    except OSError as error:
        raise StorageError(f"Could not make {folder}: {error.strerror}.") from error
    try:
        content = building / "run"
        content.mkdir(0o700)
        yield content
        _take_place(content, folder, building / "old")
    except OSError as error:
        raise StorageError(f"Could not write {folder}: {error.strerror}.") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _take_place(content: Path, folder: Path, old: Path) -> None:
    if not folder.exists():
        content.replace(folder)
        return
    # A folder cannot be renamed onto one that is not empty.
    folder.replace(old)
    try:
        content.replace(folder)
    except OSError:
        # The former folder must survive a failed rename.
        old.replace(folder)
        raise


def _copy(source: Path, target: Path) -> None:
    # Not by `open_whole`: it packs what is named .gz, and here the whole folder appears at once.
    make_run_folders(target.parent)
    try:
        reading = open_regular(source)
    except OSError as error:
        raise unreadable(source, error) from error
    with reading, append_run_bytes(target) as writing:
        shutil.copyfileobj(reading, writing)
