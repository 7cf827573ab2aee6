"""The files to attach: what each was given for, and the ranks in their names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hvdprof.errors import HvdprofError, UnreadableInputError, UsageError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.kineto.trace_set import TraceSet
from hvdprof.ingest.kineto.traced_pass import read_traces
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.phase_logs import add_phase_logs
from hvdprof.ingest.recognise import Kind, Recognised, recognise, recognise_all
from hvdprof.ingest.rundir.flight_files import read_recordings
from hvdprof.ingest.sources.listing import rank_in_name
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.timeline.horovod_timeline import TimelineFile, read_timeline_file
from hvdprof.model.file_page import PHASE_LOG
from hvdprof.model.run import Run
from hvdprof.model.sources import source_of
from hvdprof.rundir.attached import AttachedKind
from hvdprof.rundir.regular_file import shown_name, unreadable

_OF_TEXT = (AttachedKind.NCCL_LOG, AttachedKind.OUTPUT, AttachedKind.RECORDING)
_OPTION = {
    AttachedKind.TIMELINE: "--timeline",
    AttachedKind.TRACE: "--trace",
    AttachedKind.NCCL_LOG: "--nccl-log",
    AttachedKind.OUTPUT: "--stdout",
    AttachedKind.RECORDING: "--recording",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Files, folders and patterns by what they are said to hold; ``files`` by their content."""

    files: Sequence[Path] = ()
    timelines: Sequence[Path] = ()
    traces: Sequence[Path] = ()
    nccl_logs: Sequence[Path] = ()
    outputs: Sequence[Path] = ()
    recordings: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One file to attach; ``rank`` is the rank in its name, None where there is none."""

    kind: AttachedKind
    path: Path
    rank: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """The files to attach; and of each that cannot be, the error that says why."""

    sources: list[Source]
    refused: list[HvdprofError]


def sources_of(given: Given, workspace: Workspace) -> Found:
    """Every file that was given, checked by its content.

    Among several logs, outputs or recordings some may be empty: a rank that printed nothing has a
    file too, and so has one that was killed while it began a dump.

    Args:
        given: Files, folders, patterns, archives and streams.
        workspace: Receives copies of streams and the files of archives.

    Raises:
        UnreadableInputError: A file is not there, or cannot be read.
    """
    by_kind = {
        None: given.files,
        AttachedKind.TIMELINE: given.timelines,
        AttachedKind.TRACE: given.traces,
        AttachedKind.NCCL_LOG: given.nccl_logs,
        AttachedKind.OUTPUT: given.outputs,
        AttachedKind.RECORDING: given.recordings,
    }
    sources: list[Source] = []
    refused: list[HvdprofError] = []
    for kind, paths in by_kind.items():
        recognised = recognise_all(list(paths), workspace).files
        may_be_empty = kind in _OF_TEXT and any(found.size_bytes for found in recognised)
        for file in recognised:
            try:
                is_left_empty = may_be_empty and not file.size_bytes
                own = kind if kind and is_left_empty else _kind_of(file, kind, workspace)
                sources.append(Source(own, file.path, None))
            except UnreadableInputError as error:
                refused.append(error)
    outputs = [source for source in sources if source.kind == AttachedKind.OUTPUT]
    others = [source for source in sources if source.kind != AttachedKind.OUTPUT]
    return Found(others + _with_ranks(outputs), refused)


def _kind_of(file: Recognised, wanted: AttachedKind | None, workspace: Workspace) -> AttachedKind:
    """What a file is attached as: what was asked for, else what its content is.

    Raises:
        UnreadableInputError: It is nothing that can be attached, or not so.
    """
    if file.kind == Kind.TEXT:
        if wanted in _OF_TEXT:
            return wanted
        own = _kind_of_text(file.path) if wanted is None else None
    else:
        source = source_of(str(file.kind))
        own = source.attached if source else None
        # Output is read by lines: what its tools write in other forms is a recording.
        own = AttachedKind.RECORDING if own == AttachedKind.OUTPUT else own
        if source and source.why_not:
            raise UnreadableInputError(
                f"{file.name} is recognised as {file.what}. {source.why_not}"
            )
    if own is not None and wanted in (None, own):
        return own
    why = f", so {_OPTION[wanted]} cannot take it" if wanted else ", which cannot be attached"
    raise UnreadableInputError(
        f"{file.name} is recognised as {file.what}{why}.", hint=_how_to_see(file, workspace)
    )


def _kind_of_text(path: Path) -> AttachedKind:
    try:
        printed = read_printed_file(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if printed.nccl_processes:
        return AttachedKind.OUTPUT if printed.kinds else AttachedKind.NCCL_LOG
    known = {source.attached for kind in printed.kinds if (source := source_of(kind))}
    return AttachedKind.RECORDING if AttachedKind.RECORDING in known else AttachedKind.OUTPUT


def _how_to_see(file: Recognised, workspace: Workspace) -> str:
    part = workspace.part_of(file.path)
    if part is None:
        return f"See what it holds: hvdprof analyze {file.name}"
    # A member of an archive has no path of its own, and a stream can be read only once.
    archive = shown_name(part)
    return "" if archive == str(part) else f"See what the archive holds: hvdprof analyze {archive}"


def _with_ranks(outputs: list[Source]) -> list[Source]:
    """The outputs with the ranks in their names, where these differ."""
    ranks = [rank_in_name(output.path) for output in outputs]
    # kill_rank1.out is the output of a whole job: a single name decides nothing.
    if None in ranks or len(set(ranks)) < 2:
        return outputs
    return [replace(one, rank=rank) for one, rank in zip(outputs, ranks, strict=True)]


@dataclass(slots=True)
class Read:
    """What files hold that are read before they are copied; of those left out, the reason.

    ``num_phases`` is the number of ranks of the job that phase logs are of; None without any.
    """

    timelines: list[TimelineFile] = field(default_factory=list)
    traced: TraceSet | None = None
    num_phases: int | None = None
    recordings: Run | None = None
    left_out: dict[Path, HvdprofError] = field(default_factory=dict)


def read_sources(sources: Sequence[Source]) -> Read:
    """Read all but logs and output.

    Raises:
        UsageError: A Horovod timeline is among traces or phase logs.
    """
    read = Read()
    for path in paths_of(sources, AttachedKind.TIMELINE):
        try:
            file = read_timeline_file(path)
        except OSError as error:
            read.left_out[path] = unreadable(path, error)
            continue
        if len(file.rows) or not file.problems:
            read.timelines.append(file)
        else:
            reason = file.problems[0].at(shown_name(path)).text
            read.left_out[path] = UnreadableInputError(reason)
    traces, logs = (
        paths_of(sources, kind) for kind in (AttachedKind.TRACE, AttachedKind.PHASE_LOG)
    )
    if read.timelines and (traces or logs):
        raise UsageError(
            f"{'Profiler traces' if traces else 'Phase logs'} and Horovod timelines are of "
            "different jobs.",
            hint="Make one run directory of each.",
        )
    if traces:
        _read_traces(traces, read)
    if read.traced is None and logs:
        _read_phase_logs(logs, read)
    elif logs:
        why = UnreadableInputError("The phase logs are left out: the traces hold the steps.")
        read.left_out |= dict.fromkeys(logs, why)
    recordings = read_recordings(paths_of(sources, AttachedKind.RECORDING))
    read.recordings = recordings.run
    read.left_out |= _reasons(recordings.left_out)
    return read


def paths_of(sources: Sequence[Source], kind: AttachedKind) -> list[Path]:
    """The files of one kind."""
    return [source.path for source in sources if source.kind == kind]


def _read_traces(traces: Sequence[Path], read: Read) -> None:
    try:
        read.traced = read_traces(traces, [])
    except UnreadableInputError as error:
        read.left_out |= dict.fromkeys(traces, error)
    else:
        read.left_out |= _reasons(read.traced.left_out)


def _read_phase_logs(logs: Sequence[Path], read: Read) -> None:
    entries = [FileEntry(recognise(path), PHASE_LOG) for path in logs]
    try:
        manifest = add_phase_logs(entries, RunBuilder())
    except UnreadableInputError as error:
        read.left_out |= dict.fromkeys(logs, error)
    else:
        read.num_phases = manifest.passes[0].size if manifest else None
        read.left_out |= {entry.found.path: entry.error for entry in entries if entry.error}


def _reasons(left_out: Mapping[Path, str]) -> dict[Path, HvdprofError]:
    return {path: UnreadableInputError(reason) for path, reason in left_out.items()}
