"""The files to attach: what each was given for, and the ranks in their names.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.nccl_inspector import NcclInspector
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.logs.ras_text import RasText
from hvdprof.ingest.recognise import Kind, Recognised, recognise_all
from hvdprof.ingest.sources.listing import unreadable
from hvdprof.ingest.sources.rank_names import rank_in_name
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.rundir.attached import AttachedKind
from hvdprof.rundir.file_names import shown_name

_WANTED = {
    AttachedKind.TIMELINE: (Kind.TIMELINE,),
    AttachedKind.TRACE: (Kind.TRACE,),
    AttachedKind.NCCL_LOG: (Kind.TEXT,),
    AttachedKind.OUTPUT: (Kind.TEXT,),
    # Logs of NCCL's Inspector, of Megatron and of DeepSpeed are text.
    AttachedKind.RECORDING: (Kind.FLIGHT_RECORDER, Kind.NSYS, Kind.RAS, Kind.COMMS, Kind.TEXT),
}
_RECORDINGS = (NcclInspector.KIND, RasText.KIND)
"""Kinds of text that another recorder wrote."""
_MAY_BE_EMPTY = (AttachedKind.NCCL_LOG, AttachedKind.OUTPUT, AttachedKind.RECORDING)
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


def sources_of(given: Given, workspace: Workspace) -> list[Source]:
    """Every file that was given, checked by its content.

    Among several logs, outputs or recordings some may be empty: a rank that printed nothing has a
    file too, and so has one that was killed while it began a dump.

    Args:
        given: Files, folders, patterns, archives and streams.
        workspace: Receives copies of streams and the files of archives.

    Raises:
        UnreadableInputError: A file is not there, or not what it is given for.
    """
    by_kind = {
        AttachedKind.TIMELINE: given.timelines,
        AttachedKind.TRACE: given.traces,
        AttachedKind.NCCL_LOG: given.nccl_logs,
        AttachedKind.OUTPUT: given.outputs,
        AttachedKind.RECORDING: given.recordings,
    }
    sources = [
        Source(_kind_of(file, workspace), file.path, None)
        for file in recognise_all(list(given.files), workspace).files
    ]
    for kind, paths in by_kind.items():
        recognised = recognise_all(list(paths), workspace).files
        may_be_empty = kind in _MAY_BE_EMPTY and any(found.size_bytes for found in recognised)
        for file in recognised:
            is_left_empty = may_be_empty and not file.size_bytes
            if file.kind not in _WANTED[kind] and not is_left_empty:
                raise UnreadableInputError(
                    f"{file.name} is recognised as {file.what}, so {_OPTION[kind]} cannot take it.",
                    hint=_how_to_see(file, workspace),
                )
            sources.append(Source(kind, file.path, None))
    return [source for source in sources if source.kind != AttachedKind.OUTPUT] + _with_ranks(
        [source for source in sources if source.kind == AttachedKind.OUTPUT]
    )


def _kind_of(file: Recognised, workspace: Workspace) -> AttachedKind:
    """What a file is attached as, by its content alone.

    Raises:
        UnreadableInputError: It is nothing that can be attached.
    """
    if file.kind != Kind.TEXT:
        for kind, wanted in _WANTED.items():
            if file.kind in wanted:
                return kind
        raise UnreadableInputError(
            f"{file.name} is recognised as {file.what}, which cannot be attached.",
            hint=_how_to_see(file, workspace),
        )
    try:
        printed = read_printed_file(file.path)
    except OSError as error:
        raise unreadable(file.path, error) from error
    if printed.nccl_processes and not printed.kinds:
        return AttachedKind.NCCL_LOG
    return AttachedKind.RECORDING if set(printed.kinds) & set(_RECORDINGS) else AttachedKind.OUTPUT


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
