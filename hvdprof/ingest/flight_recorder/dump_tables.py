"""Dumps of a job to tables: the calls of each rank, and how far it came in each group."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from hvdprof.errors import HvdprofError
from hvdprof.ingest.flight_recorder.dump_file import Dump, DumpCall, DumpGroup
from hvdprof.ingest.flight_recorder.dump_set import DumpSet, read_dump_sets
from hvdprof.ingest.recognise import Recognised
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.collective_matching import SubmittedCall, match_collectives
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.tables.collective_progress_tables import COLLECTIVE_PROGRESS
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES, UNBOUNDED_CLOCK_NS

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
        builder.notes += dict.fromkeys(error.message for error in dumps.left_out.values())
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
            pending = _pending(dump, group)
            rows.add(
                job=dumps.name,
                file=dumps.files[rank],
                line=None,
                source=SOURCE,
                rank=rank,
                status="",
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


def _pending(dump: Dump, group: DumpGroup) -> DumpCall | None:
    done = group.completed
    waiting = [
        call
        for call in dump.calls
        if call.group == group.name
        and not call.is_p2p
        and call.state != "completed"
        and (done is None or call.seq > done)
    ]
    return min(waiting, key=lambda call: call.seq, default=None)


def _calls(dumps: DumpSet) -> pd.DataFrame:
    ranks = sorted(dumps.dumps)
    submitted = {
        rank: [
            SubmittedCall(call.group, -1, call.seq, (call.collective, call.dtype, call.size_bytes))
            for call in dumps.dumps[rank].calls
        ]
        for rank in ranks
    }
    matching = match_collectives(submitted)
    rows = Rows(RANK_COLLECTIVES)
    for rank in ranks:
        dump = dumps.dumps[rank]
        for call, match_id in zip(dump.calls, matching.ids[rank], strict=True):
            group = dump.groups.get(call.group)
            rows.add(
                pass_id=dumps.name,
                segment="main",
                source=SOURCE,
                rank=rank,
                step=-1,
                group=call.group,
                group_size=len(group.ranks) if group and group.ranks else None,
                seq=call.seq,
                match_id=int(match_id),
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
    return rows.frame()
