"""Dumps of a job to tables: the calls of each rank, and how far it came in each group."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import pandas as pd

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_columns import belong_together, check_one_job, group_labels
from hvdprof.ingest.flight_recorder.dump_file import Dump, read_dump
from hvdprof.ingest.recognise import Recognised
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.collective_matching import with_matches
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_PROGRESS,
    NO_MATCH,
    RANK_COLLECTIVES,
    UNBOUNDED_CLOCK_NS,
)
from hvdprof.rundir.regular_file import shown_name

# What stands behind the rank is the host, a process or a time.
_NAMED_RANK = re.compile(r"(?<=rank)[._-]?(\d{1,7})", re.IGNORECASE)
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

    Such sets are one job where their groups and calls say so: names may hold a host, and every
    host may have a folder. A file that cannot be read and a second file of a rank are left out.
    Nothing of a set is used whose files are of several jobs.
    """
    members: dict[str, list[Recognised]] = {}
    for file in found:
        members.setdefault(_set_name(file.path), []).append(file)
    jobs: list[DumpSet] = []
    for part in (_read_set(name, files) for name, files in members.items()):
        job = next((job for job in jobs if _is_of(part, job)), None)
        if job is None:
            jobs.append(part)
        else:
            same = takewhile(
                lambda pair: pair[0] == pair[1], zip(job.name, part.name, strict=False)
            )
            job.name = f"{''.join(letter for letter, _ in same)}*"
            job.dumps |= part.dumps
            job.files |= part.files
            job.left_out |= part.left_out
    return jobs


def _is_of(part: DumpSet, job: DumpSet) -> bool:
    """Whether a set holds other ranks of a job."""
    if not part.dumps or not job.dumps or not part.dumps.keys().isdisjoint(job.dumps):
        return False
    some, others = ({one.files[rank]: one.dumps[rank] for rank in one.dumps} for one in (part, job))
    return belong_together(some, others)


def _set_name(path: Path) -> str:
    """The name with ``*`` in place of the rank, which PyTorch puts at its end."""
    stem, dot, suffix = path.name.removesuffix(".gz").partition(".json")
    number = _number_of(stem)
    if number is not None:
        stem = f"{stem[: number.start(1)]}*{stem[number.end(1) :]}"
    return shown_name(path.parent / f"{stem}{dot}{suffix}")


def _number_of(stem: str) -> re.Match[str] | None:
    return _NAMED_RANK.search(stem) or _LAST_NUMBER.search(stem)


def _read_set(name: str, files: Sequence[Recognised]) -> DumpSet:
    dumps = DumpSet(files[0].name if len(files) == 1 else name)
    for file in files:
        try:
            _add(file, read_dump(file.path), dumps)
        except HvdprofError as error:
            dumps.left_out[file.name] = error
        except OSError as error:
            reason = f"{file.name}: {error.strerror or error}."
            dumps.left_out[file.name] = UnreadableInputError(reason)
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
    number = _number_of(path.name.removesuffix(".gz").removesuffix(".json"))
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


SOURCE = "flight-recorder"
_UNDESCRIBED = ("", "undefined")


@dataclass(frozen=True, slots=True)
class AddedDumps:
    """By the name of each file, the number of its rows, or why nothing of it is used."""

    num_rows: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, HvdprofError] = field(default_factory=dict)


def add_dumps(found: Sequence[Recognised], builder: RunBuilder) -> AddedDumps:
    """Add the tables of all dumps, and notes on those that are left out."""
    added = AddedDumps()
    for dumps in read_dump_sets(found):
        reasons = dict.fromkeys(error.message for error in dumps.left_out.values())
        builder.notes += [Note(NoteCode.LEFT_OUT, reason) for reason in reasons]
        added.left_out.update(dumps.left_out)
        if not dumps.dumps:
            continue
        progress, calls = _progress(dumps), _calls(dumps)
        builder.add_tables([(COLLECTIVE_PROGRESS.name, progress), (RANK_COLLECTIVES.name, calls)])
        for rank, file in dumps.files.items():
            # A rank that hangs before its first collective has a dump, too.
            dump = dumps.dumps[rank]
            added.num_rows[file] = len(dump.calls) + len(dump.groups)
    return added


def _progress(dumps: DumpSet) -> pd.DataFrame:
    point_to_point = _point_to_point(dumps)
    rows = Rows(COLLECTIVE_PROGRESS)
    for rank, dump in sorted(dumps.dumps.items()):
        for group in dump.groups.values():
            done = group.completed
            waiting = [
                call
                for call in dump.calls
                if call.group == group.name
                and not call.is_p2p
                and call.state != "completed"
                and (done is None or call.seq > done)
            ]
            pending = min(waiting, key=lambda call: call.seq, default=None)
            rows.add(
                job=dumps.name,
                file=dumps.files[rank],
                line=None,
                source=SOURCE,
                rank=rank,
                status="",
                collective="",
                host="",
                pid=None,
                gpu="",
                group=group.name,
                description=group.desc,
                group_ranks=", ".join(map(str, group.ranks)),
                point_to_point=group.name in point_to_point or group.desc in point_to_point,
                last_enqueued=group.enqueued,
                last_completed=group.completed,
                pending_name=pending.name if pending else "",
                pending_since_ns=pending.created_ns if pending else None,
                timeout_ns=pending.timeout_ns if pending else None,
            )
    return rows.frame()


def _point_to_point(dumps: DumpSet) -> set[str]:
    """Names and descriptions of groups with sends: an idle rank has none left that shows it."""
    found = set()
    for dump in dumps.dumps.values():
        for call in dump.calls:
            if call.is_p2p:
                desc = dump.groups[call.group].desc if call.group in dump.groups else ""
                found |= {call.group} if desc in _UNDESCRIBED else {call.group, desc}
    return found


def _calls(dumps: DumpSet) -> pd.DataFrame:
    ranks = sorted(dumps.dumps)
    rows = Rows(RANK_COLLECTIVES)
    groups = [dump.groups.values() for dump in dumps.dumps.values()]
    labels = group_labels({group.name: group.ranks for group in own} for own in groups)
    for rank in ranks:
        dump = dumps.dumps[rank]
        for call in dump.calls:
            group = dump.groups.get(call.group)
            rows.add(
                pass_id=dumps.name,
                segment="main",
                source=SOURCE,
                rank=rank,
                step=-1,
                group=labels[group.name, group.ranks] if group else call.group,
                group_size=len(group.ranks) if group and group.ranks else None,
                seq=call.seq,
                match_id=NO_MATCH,
                collective=call.collective,
                name=call.name,
                dtype=call.dtype,
                size_bytes=call.size_bytes,
                submitted_ns=call.created_ns,
                start_ns=None,
                arrival_ns=call.created_ns,
                end_ns=None,
                exposed_ns=None,
                state=call.state,
                clock_error_ns=0 if rank == ranks[0] else UNBOUNDED_CLOCK_NS,
            )
    return with_matches(rows.frame())
