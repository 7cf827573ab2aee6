"""The file with measurements of the network between the hosts of a run.

The file has one JSON object a line: a header, then one record for every pair of hosts and size.

History of the schema:
    1   first version
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, decode, read_lines
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside
from hvdprof.rundir.written_file import file_mode, write_whole

NET_SCHEMA_VERSION = 1


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
