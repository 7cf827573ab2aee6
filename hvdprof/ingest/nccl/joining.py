"""Ranks of many processes put together to communicators, and logs put together to jobs."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hvdprof.ingest.nccl.logbook import Logbook, Member
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.tables.nccl_tables import NCCL_COMMUNICATORS, NCCL_NICS, NCCL_RANKS

Process = tuple[str, str]
"""Host and process id as they stand in a log."""


def jobs_of(processes: Mapping[Path, Collection[Process]]) -> list[list[Path]]:
    """The files of each job.

    A log of several processes is a job of its own. Logs of one process each belong together where
    they lie in one folder and their names differ in that host, that process id and numbers alone,
    as NCCL_DEBUG_FILE writes them for ``%h`` and ``%p``.

    Args:
        processes: Processes whose lines are in each log; two mean two or more.
    """
    jobs: dict[object, list[Path]] = {}
    for path, members in processes.items():
        jobs.setdefault(_job_key(path, members), []).append(path)
    return list(jobs.values())


def _job_key(path: Path, members: Collection[Process]) -> object:
    if len(members) != 1:
        return path
    ((host, pid),) = members
    name = path.name.replace(host or "%h", "%h").replace(pid, "%p")
    return path.parent, re.sub(r"\d+", "#", name)


def nccl_tables(recordings: Sequence[NcclRecording]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of some jobs by name, communicators numbered across them."""
    offset = 0
    for recording in recordings:
        numbers = recording.communicators["communicator"]
        for field in dataclasses.fields(recording):
            frame = getattr(recording, field.name)
            if not isinstance(frame, pd.DataFrame):
                continue
            if offset and "communicator" in frame:
                frame = frame.assign(communicator=frame["communicator"] + offset)
            yield f"nccl_{field.name}", frame
        offset += int(numbers.max()) + 1 if len(numbers) else 0


_OF_PROCESS = ("host", "pid", "tag_rank")
"""Columns of NCCL_RANKS that are fields of the process; the others are those of its member."""

_PROCESS = ["host", "pid"]
_DEVICE = [*_PROCESS, "network", "index"]


@dataclass(frozen=True, slots=True)
class Communicator:
    """Indices of its ranks in the logbook; ``num_joined`` is above 1 where it is ambiguous."""

    members: tuple[int, ...]
    join: str
    num_joined: int


def join_members(members: Sequence[Member]) -> list[Communicator]:
    """Communicators in order of appearance.

    From 2.16 on the commId decides. Before, ranks are joined where only one way is possible: a
    communicator of one rank, the only set of its size, or complete sets of the same processes one
    after the other. What is left of a size becomes one row that says it is ambiguous.
    """
    by_id: dict[str, list[int]] = defaultdict(list)
    by_size: dict[int | None, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        if member.comm_id:
            by_id[member.comm_id].append(index)
        else:
            by_size[member.num_ranks if member.rank is not None else None].append(index)
    communicators = [Communicator(tuple(group), "commId", 1) for group in by_id.values()]
    for size, group in by_size.items():
        communicators += _join_size(members, size, group)
    return sorted(communicators, key=lambda communicator: communicator.members[0])


def _join_size(
    members: Sequence[Member], size: int | None, group: Sequence[int]
) -> list[Communicator]:
    if size is None:
        return [Communicator((index,), "pointer", 1) for index in group]
    if size == 1:
        return [Communicator((index,), "single", 1) for index in group]
    if len({members[index].rank for index in group}) == len(group):
        complete = len(group) == size
        return [Communicator(tuple(group), "complete" if complete else "partial", 1)]
    if len({members[index].rank for index in group}) == 1:
        return [Communicator((index,), "partial", 1) for index in group]
    return _split_by_order(members, size, group)


def _is_complete(members: Sequence[Member], size: int, piece: Sequence[int]) -> bool:
    return len(piece) == size == len({members[index].rank for index in piece})


def _split_by_order(
    members: Sequence[Member], size: int, group: Sequence[int]
) -> list[Communicator]:
    """Complete sets that end one after the other, without a rank of the next between them."""
    ordered = sorted(group, key=lambda index: members[index].complete_order)
    pieces = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if all(_is_complete(members, size, piece) for piece in pieces):
        processes = {frozenset(members[index].process for index in piece) for piece in pieces}
        if len(processes) == 1:
            return [Communicator(tuple(sorted(piece)), "order", 1) for piece in pieces]
    most = max(
        sum(members[index].rank == rank for index in group)
        for rank in {members[index].rank for index in group}
    )
    return [Communicator(tuple(sorted(group)), "ambiguous", most)]


def communicator_frame(log: Logbook, communicators: Sequence[Communicator]) -> pd.DataFrame:
    """One row of ``NCCL_COMMUNICATORS`` for each."""
    rows = []
    for number, communicator in enumerate(communicators):
        members = [log.members[index] for index in communicator.members]
        rows.append(
            {
                "communicator": number,
                "comm_id": members[0].comm_id,
                "num_ranks": _first(member.num_ranks for member in members),
                "num_ranks_seen": len({member.rank for member in members}),
                "num_ranks_started": len({m.rank for m in members if m.started}),
                "num_ranks_complete": len({m.rank for m in members if m.complete}),
                "num_hosts": len({log.processes[member.process].host for member in members}),
                "num_coll_channels": _first(member.num_coll_channels for member in members),
                "num_p2p_channels": _first(member.num_p2p_channels for member in members),
                "join": communicator.join,
                "num_joined": communicator.num_joined,
            }
        )
    return NCCL_COMMUNICATORS.frame(rows)


def rank_frame(log: Logbook, communicators: Sequence[Communicator]) -> pd.DataFrame:
    """One row of ``NCCL_RANKS`` for each rank of each, from the lines of its own process."""
    rows = []
    for number, communicator in enumerate(communicators):
        for index in communicator.members:
            member = log.members[index]
            process = log.processes[member.process]
            row = {
                name: getattr(process if name in _OF_PROCESS else member, name)
                for name in NCCL_RANKS.column_names
                if name != "communicator"
            }
            rows.append({"communicator": number} | row)
    return NCCL_RANKS.frame(rows)


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def nics_in_use(nics: pd.DataFrame, ranks: pd.DataFrame, connections: pd.DataFrame) -> pd.DataFrame:
    """NCCL_NICS with ``rank``, ``num_connections`` and ``gpudirect``.

    Args:
        nics: NCCL_NICS without these.
        ranks: NCCL_RANKS; the largest communicator of a process gives its rank.
        connections: NCCL_CONNECTIONS.
    """
    if nics.empty:
        return nics
    names = dict.fromkeys(("host", "network"), str)
    bare = nics.drop(columns=["rank", "num_connections", "gpudirect"]).astype(names)
    largest = ranks.dropna(subset=["rank"]).sort_values("num_ranks", ascending=False)
    rank_of = largest.drop_duplicates(_PROCESS)[[*_PROCESS, "rank"]].astype({"host": str})
    table = bare.merge(rank_of, on=_PROCESS, how="left").merge(
        _use(connections.astype(names)), on=_DEVICE, how="left"
    )
    used = (table["purpose"].astype(str) == "data") & table["num_connections"].notna()
    table["num_connections"] = table["num_connections"].where(used, 0).astype("int64")
    table["gpudirect"] = table["gpudirect"].where(used, False).astype("bool")
    return NCCL_NICS.frame(table)


def _use(connections: pd.DataFrame) -> pd.DataFrame:
    through = connections[connections["nic"].notna()]
    # The plugins of a connection have names of their own; devices are of three kinds.
    networks = through["network"].map(_kind)
    devices = through.assign(network=networks).rename(columns={"nic": "index"})
    groups = devices.groupby(_DEVICE, sort=False)
    return groups.agg(
        num_connections=("channel", "size"), gpudirect=("gpudirect", "any")
    ).reset_index()


def _kind(network: str) -> str:
    if network == "Socket":
        return "Socket"
    return "IB" if network.startswith("IB") else "OFI"
