"""Files that somebody had already, copied into a run directory: what each was and where it lies."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from hvdprof.rundir.manifest import Manifest

_SETTING = "attached"


class AttachedKind(StrEnum):
    """What an attached file holds."""

    TIMELINE = "timeline"
    NCCL_LOG = "nccl-log"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """One copied file.

    ``given`` is its name as it was given, ``kept`` where the copy lies in the run directory.
    ``rank`` is the rank whose file it is, None for a file of the whole job.
    """

    kind: AttachedKind
    given: str
    kept: str
    rank: int | None


def attached_settings(files: Sequence[AttachedFile]) -> dict[str, Any]:
    """The settings of a manifest that say which files were attached."""
    return {_SETTING: [asdict(file) for file in files]}


def attached_files(manifest: Manifest) -> tuple[AttachedFile, ...]:
    """The files that were attached; none for a run that hvdprof measured itself."""
    return tuple(
        AttachedFile(
            kind=AttachedKind(entry["kind"]),
            given=str(entry["given"]),
            kept=str(entry["kept"]),
            rank=entry.get("rank"),
        )
        for entry in manifest.settings.get(_SETTING, ())
    )
