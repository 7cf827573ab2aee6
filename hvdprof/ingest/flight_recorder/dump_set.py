"""Dumps of the ranks of one job, put together: whose each file is, and what does not belong.

Tested in ``tests/ingest/flight_recorder/test_dump_tables.py``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_file import Dump, read_dump
from hvdprof.ingest.flight_recorder.one_job import check_one_job
from hvdprof.ingest.recognise import Recognised
from hvdprof.rundir.shown_names import shown_name

_LAST_NUMBER = re.compile(r"(\d{1,7})(?=\D*$)")


@dataclass(slots=True)
class DumpSet:
    """The dumps of one job by rank; ``files`` has the names of their files.

    ``left_out`` says of other files, by their names, why nothing of them is used.
    """

    name: str
    dumps: dict[int, Dump] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    left_out: dict[str, HvdprofError] = field(default_factory=dict)


def read_dump_sets(found: Sequence[Recognised]) -> list[DumpSet]:
    """The jobs that some dumps are of: files of one folder whose names differ in the rank alone.

    A file that cannot be read and a second file of a rank are left out. Nothing of a set is used
    whose files are of several jobs.
    """
    members: dict[str, list[Recognised]] = {}
    for one in found:
        members.setdefault(_set_name(one.path), []).append(one)
    return [_read_set(name, files) for name, files in members.items()]


def _set_name(path: Path) -> str:
    """The name with ``*`` in place of the rank, which PyTorch puts at its end."""
    name = path.name.removesuffix(".gz")
    stem, dot, suffix = name.partition(".json")
    return shown_name(path.parent / f"{_LAST_NUMBER.sub('*', stem)}{dot}{suffix}")


def _read_set(name: str, files: Sequence[Recognised]) -> DumpSet:
    dumps = DumpSet(files[0].name if len(files) == 1 else name)
    for one in files:
        try:
            _add(one, read_dump(one.path), dumps)
        except HvdprofError as error:
            dumps.left_out[one.name] = error
        except OSError as error:
            reason = f"{one.name}: {error.strerror or error}."
            dumps.left_out[one.name] = UnreadableInputError(reason)
    try:
        check_one_job({dumps.files[rank]: dump for rank, dump in dumps.dumps.items()})
    except UnreadableInputError as error:
        # Which of them are the job that the user means, nothing says.
        refused = dict.fromkeys(dumps.files.values(), error)
        return DumpSet(dumps.name, left_out={**dumps.left_out, **refused})
    return dumps


def _add(found: Recognised, dump: Dump, dumps: DumpSet) -> None:
    rank, problem = _rank(found.path, dump)
    if rank is None:
        raise UnreadableInputError(f"{found.name}: {problem}; left out.")
    if rank in dumps.dumps:
        raise UnreadableInputError(
            f"{found.name}: {dumps.files[rank]} is a dump of rank {rank} too; left out."
        )
    for other, known in dumps.dumps.items():
        if dump.calls and dump.calls == known.calls:
            raise UnreadableInputError(
                f"{found.name}: a copy of {dumps.files[other]}, which is rank {other}'s; left out."
            )
    dumps.dumps[rank] = dump
    dumps.files[rank] = found.name


def _rank(path: Path, dump: Dump) -> tuple[int | None, str]:
    """The rank of a dump, or why none can be said: a dump states groups, not its own rank."""
    number = _LAST_NUMBER.search(path.name.removesuffix(".gz").removesuffix(".json"))
    named = int(number[1]) if number else None
    possible = dump.possible_ranks
    if possible is not None and len(possible) == 1:
        (only,) = possible
        if named is not None and named != only:
            return None, f"named as rank {named}, but its process groups are those of rank {only}"
        return only, ""
    if named is None:
        return None, "neither its name nor its process groups say whose it is"
    if possible is not None and named not in possible:
        return None, f"named as rank {named}, but its process groups do not include that rank"
    return named, ""
