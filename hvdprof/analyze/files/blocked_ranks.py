"""Which ranks a hang begins with: who has not submitted a collective that others wait in.

A rank waits for those of its group that have not submitted its first pending collective. Those may
wait for others again. The hang begins with the ranks at the ends of these chains, and with those
that have not completed a collective which another rank of the group has completed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof.model.frame_row import is_missing
from hvdprof.rank_names import ranks_named

MISSING, STUCK = "missing", "stuck"


@dataclass(frozen=True, slots=True)
class RankInGroup:
    """How far one rank came in one group; the numbers are None where unknown."""

    rank: int
    enqueued: int | None
    completed: int | None
    pending_name: str = ""
    pending_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class BlockedCollective:
    """The first collective that does not complete because of ``ranks``.

    ``kind`` is ``missing`` (not submitted by them) or ``stuck`` (submitted; completed by another
    rank, and not by them). ``waiting`` are the ranks that have submitted and not completed it.
    """

    kind: str
    ranks: tuple[int, ...]
    group: str
    seq: int
    name: str
    waiting: tuple[int, ...]
    since_ns: int | None


@dataclass(frozen=True, slots=True)
class Hang:
    """The ranks that a hang begins with, and why; empty where no rank is behind another.

    ``unmatched`` are collectives that all ranks known have submitted and none has completed.
    """

    missing: tuple[int, ...]
    stuck: tuple[int, ...]
    first: tuple[BlockedCollective, ...]
    blocked: tuple[int, ...]
    pending: tuple[int, ...]
    completions_known: bool

    @property
    def culprits(self) -> tuple[int, ...]:
        """Missing and stuck ranks."""
        return tuple(sorted({*self.missing, *self.stuck}))


def groups_of(progress: pd.DataFrame) -> dict[str, list[RankInGroup]]:
    """The ranks of each group that can be compared, from rows of COLLECTIVE_PROGRESS of a job."""
    rows = progress[~progress["point_to_point"].to_numpy()]
    groups: dict[str, list[RankInGroup]] = {}
    for row in rows.to_dict("records"):
        listed = str(row["group_ranks"])
        ranks = ranks_named(map(int, listed.split(", "))) if listed else ""
        named = f"{row['description'] or 'process group'} {row['group']}"
        key = f"{named} ({ranks})" if ranks else named
        groups.setdefault(key, []).append(
            RankInGroup(
                int(row["rank"]),
                _whole(row["last_enqueued"]),
                _whole(row["last_completed"]),
                str(row["pending_name"]),
                _whole(row["pending_since_ns"]),
            )
        )
    return groups


def hang_of(groups: Mapping[str, Sequence[RankInGroup]]) -> Hang:
    """The ranks that others wait for, and that wait for none themselves."""
    found = [call for name, members in groups.items() for call in _blocked_in(name, members)]
    waits_for: dict[int, set[int]] = {}
    for call in found:
        if call.kind == MISSING:
            for rank in call.waiting:
                waits_for.setdefault(rank, set()).update(call.ranks)
    missing = _ends(waits_for)
    stuck = {rank for call in found if call.kind == STUCK for rank in call.ranks}
    culprits = missing | stuck
    first = [call for call in found if culprits & set(call.ranks)]
    first.sort(key=lambda call: (call.since_ns is None, call.since_ns or 0, call.kind, call.group))
    pending = {
        member.rank
        for members in groups.values()
        for member in members
        if member.enqueued is not None
        and member.completed is not None
        and max(member.completed, 0) < member.enqueued
    }
    return Hang(
        missing=tuple(sorted(missing)),
        stuck=tuple(sorted(stuck)),
        first=tuple(first),
        blocked=tuple(sorted((pending | set(waits_for)) - culprits)),
        pending=tuple(sorted(pending)),
        completions_known=all(
            member.completed is not None for members in groups.values() for member in members
        ),
    )


def _ends(waits_for: Mapping[int, set[int]]) -> set[int]:
    """The ranks waited for that wait for none; of ranks that wait for each other, all."""
    waited = set().union(*waits_for.values()) if waits_for else set()
    ends = waited - set(waits_for)
    # Ranks that submitted collectives of two groups in different orders wait for each other.
    return ends or waited


def _blocked_in(name: str, members: Sequence[RankInGroup]) -> list[BlockedCollective]:
    known = [member for member in members if member.enqueued is not None]
    if len(known) < 2:
        return []
    if any(rank.completed is None for rank in known):
        return _by_submission(name, known)
    found = []
    done = max(_number(rank.completed) for rank in known)
    stuck = [rank for rank in known if _number(rank.completed) < min(done, _number(rank.enqueued))]
    if stuck:
        seq = min(_number(rank.completed) for rank in stuck) + 1
        found.append(_collective(STUCK, stuck, name, seq, stuck))
    # The first collective pending on a rank; several ranks may stand at different ones.
    for seq in sorted({_number(rank.completed) + 1 for rank in known if _is_pending(rank)}):
        absent = [rank for rank in known if _number(rank.enqueued) < seq]
        waiting = [
            rank for rank in known if _is_pending(rank) and _number(rank.completed) + 1 == seq
        ]
        if absent:
            found.append(_collective(MISSING, absent, name, seq, waiting))
    return found


def _by_submission(name: str, known: Sequence[RankInGroup]) -> list[BlockedCollective]:
    """Where completions are unknown: the first collective that some have not submitted."""
    behind = min(_number(rank.enqueued) for rank in known)
    absent = [rank for rank in known if _number(rank.enqueued) == behind]
    waiting = [rank for rank in known if _number(rank.enqueued) > behind]
    return [_collective(MISSING, absent, name, behind + 1, waiting)] if waiting else []


def _collective(
    kind: str, ranks: Sequence[RankInGroup], group: str, seq: int, waiting: Sequence[RankInGroup]
) -> BlockedCollective:
    since = [rank.pending_since_ns for rank in waiting if rank.pending_since_ns is not None]
    return BlockedCollective(
        kind=kind,
        ranks=tuple(sorted(rank.rank for rank in ranks)),
        group=group,
        seq=seq,
        name=next((rank.pending_name for rank in waiting if rank.pending_name), ""),
        waiting=tuple(sorted(rank.rank for rank in waiting)),
        since_ns=min(since, default=None),
    )


def _is_pending(one: RankInGroup) -> bool:
    return _number(one.completed) < _number(one.enqueued)


def _number(value: int | None) -> int:
    """A last sequence number; none yet is written as -1 or 0."""
    return max(value or 0, 0)


def _whole(value: object) -> int | None:
    return None if is_missing(value) else int(str(value))
