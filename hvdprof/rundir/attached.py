"""Files that existed before a run directory, copied into it: their kinds, names and places."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.json_codec import JsonObject
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.regular_file import check_relative

_SETTING = "attached"


class AttachedKind(StrEnum):
    """What an attached file holds."""

    TIMELINE = "timeline"
    TRACE = "trace"
    NCCL_LOG = "nccl-log"
    OUTPUT = "output"
    RECORDING = "recording"
    PHASE_LOG = "phase-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """One copied file.

    ``given`` is its name as the user gave it, ``copy`` the path of the copy in the run directory.
    ``rank`` is the rank whose file it is, None for a file of the whole job.
    """

    kind: AttachedKind
    given: str
    copy: str
    rank: int | None


def attached_settings(files: Sequence[AttachedFile]) -> JsonObject:
    """The settings of a manifest that list the attached files."""
    return {
        _SETTING: [
            {"kind": file.kind, "given": file.given, "kept": file.copy, "rank": file.rank}
            for file in files
        ]
    }


def attached_files(manifest: Manifest) -> tuple[AttachedFile, ...]:
    """The files that were attached; none for a run that hvdprof measured itself.

    Raises:
        UnreadableInputError: The manifest lists them wrongly, or a copy lies elsewhere.
    """
    try:
        return tuple(map(_attached_file, manifest.settings.get(_SETTING, ())))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"The list of attached files is damaged: {error}.") from error


def has_traces(manifest: Manifest) -> bool:
    """Whether the steps of a run come from profiler traces, or from phase logs."""
    kinds = {attached_file.kind for attached_file in attached_files(manifest)}
    return not kinds.isdisjoint((AttachedKind.TRACE, AttachedKind.PHASE_LOG))


def has_phase_logs(manifest: Manifest) -> bool:
    """Whether the steps of a run come from phase logs of torchtitan."""
    return any(one.kind == AttachedKind.PHASE_LOG for one in attached_files(manifest))


def _attached_file(entry: JsonObject) -> AttachedFile:
    copy, rank = entry["kept"], entry.get("rank")
    check_relative(copy, "attached file")
    if rank is not None and type(rank) is not int:
        raise ValueError(f"rank {rank!a} is no number")
    return AttachedFile(
        kind=AttachedKind(entry["kind"]), given=str(entry["given"]), copy=copy, rank=rank
    )
