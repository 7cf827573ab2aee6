"""Files of a run beside its recordings: those copied into it, and measurements of the network."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, decode, read_lines
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.regular_file import check_relative, checked_inside
from hvdprof.rundir.written_file import file_mode, write_whole

_SETTING = "attached"

NET_SCHEMA_VERSION = 1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NetRecording:
    """Times of messages between hosts.

    ``created_at`` is ISO 8601, UTC; ``hosts`` are the host names by rank;
    ``controller`` is ``mpi`` or ``gloo``. A record has ``what`` (``tcp``, ``broadcast``,
    ``allreduce``), ``from`` and ``to`` (ranks; absent for ``allreduce``), ``size_bytes`` and
    ``times_ns``, or ``problem`` where the pair could not be measured. ``problems`` are clauses on
    damaged lines of the file.
    """

    created_at: str
    controller: str
    device: str
    hosts: list[str]
    records: list[JsonObject]
    problems: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write the file into a run directory, whole or not at all.

        Raises:
            StorageError: It could not be written.
        """
        header = {
            "schema_version": NET_SCHEMA_VERSION,
            "created_at": self.created_at,
            "controller": self.controller,
            "device": self.device,
            "hosts": self.hosts,
        }
        path = RunPaths(folder).net
        write_whole(path, _lines([header, *self.records]), mode=file_mode(path))

    @classmethod
    def read(cls, folder: Path) -> "NetRecording | None":
        """The recording in a run directory; None where there is none.

        Raises:
            UnreadableInputError: It is damaged, or a newer hvdprof wrote it.
        """
        path = RunPaths(folder).net
        lines: list[JsonObject] = []
        try:
            problems = read_lines(checked_inside(folder, path), lambda _, line: lines.append(line))
            header, *records = lines
            version = header.pop("schema_version")
            if version > NET_SCHEMA_VERSION:
                raise UnreadableInputError(
                    f"{path} has schema version {version}; this hvdprof reads up to "
                    f"{NET_SCHEMA_VERSION}.",
                    hint="pip install --upgrade hvdprof",
                )
            return decode(cls, {**header, "records": records, "problems": problems}, path.name)
        except FileNotFoundError:
            return None
        except (OSError, *DAMAGE) as error:
            raise UnreadableInputError(
                f"{path} is damaged: {error}.", hint="Measure again: hvdprof net --hosts ..."
            ) from error


def _lines(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
