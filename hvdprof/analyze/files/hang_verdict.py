"""Verdict and facts of a hang: how far each rank is in each process group, and who began it.

A rank waits for those of its group that have not submitted its first pending collective. Those may
wait for others again. The hang begins with the ranks at the ends of these chains, and with those
that have not completed a collective which another rank of the group has completed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import is_missing
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_listed, ranks_named

MISSING, STUCK = "missing", "stuck"
_MOST_COLLECTIVES = 4
_ABSENT_FIX = "look at the end of their output, and collect their dumps"


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
                whole_or_none(row["last_enqueued"]),
                whole_or_none(row["last_completed"]),
                str(row["pending_name"]),
                whole_or_none(row["pending_since_ns"]),
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
    # The ranks waited for that wait for none; of ranks that wait for each other, all.
    waited = set().union(*waits_for.values()) if waits_for else set()
    ends = waited - set(waits_for)
    # Ranks that submitted collectives of two groups in different orders wait for each other.
    missing = ends or waited
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


def whole_or_none(value: object) -> int | None:
    """A whole number of a row; None where it is missing."""
    return None if is_missing(value) else int(str(value))


def progress_hang(progress: pd.DataFrame) -> Hang:
    """The hang of one job, from its rows of COLLECTIVE_PROGRESS."""
    return hang_of(groups_of(progress))


def hang_sentence(hang: Hang) -> str:
    """Which ranks are behind in which collective, and how to find out why; empty without any."""
    if not hang.culprits:
        return ""
    clauses = []
    absent = tuple(rank for rank in hang.missing if rank not in hang.stuck)
    if absent:
        clauses.append(f"{_have(absent)} not submitted {_what(_widest(hang, MISSING, absent))}")
    if hang.stuck:
        what = _what(_widest(hang, STUCK, hang.stuck))
        clauses.append(f"{_have(hang.stuck)} not completed {what}, which other ranks completed")
    if hang.blocked:
        clauses.append(f"{units.counted(len(hang.blocked), 'other rank')} blocked")
    return f"Hang: {'; '.join(clauses)}. Fix: {_fix(hang)}."


def _fix(hang: Hang) -> str:
    if hang.stuck:
        hosts = "its host" if len(hang.stuck) == 1 else "their hosts"
        return f"look for GPU and network errors on {hosts} (dmesg, nvidia-smi -q)"
    does = "it does" if len(hang.missing) == 1 else "they do"
    named = ranks_named(hang.missing)
    return f"look at the end of the output of {named}, and at what {does} instead"


def hang_facts(hang: Hang) -> list[Fact]:
    """The ranks behind, those blocked, and the first collectives, a line for each."""
    if not hang.culprits:
        return []
    lines = [_line(call) for call in hang.first[:_MOST_COLLECTIVES]]
    if more := len(hang.first) - len(lines):
        lines.append(f"and {more} more")
    facts = [
        Fact("hang_ranks", "hang begins with ranks", ranks_listed(hang.culprits)),
        Fact("missing_in", "first collectives affected", "\n".join(lines)),
    ]
    if hang.stuck:
        facts.append(
            Fact("stuck_ranks", "ranks stuck where others completed", ranks_listed(hang.stuck))
        )
    facts.append(Fact("num_blocked", "ranks blocked by them", len(hang.blocked)))
    return facts


def no_hang_verdict(hang: Hang, num_ranks: int, absent: Sequence[int]) -> FileVerdict:
    """What ranks have in common that are not behind each other.

    Args:
        hang: Without culprits.
        num_ranks: Ranks with a dump.
        absent: Ranks without one.
    """
    if hang.pending and absent:
        return FileVerdict(
            f"Suspects: {ranks_named(absent)}, without a dump; {ranks_named(hang.pending)} "
            f"wait{'s' if len(hang.pending) == 1 else ''} in collectives that all ranks with a "
            f"dump submitted. Fix: {_ABSENT_FIX}.",
            gravity=Gravity.HANG,
        )
    if hang.pending:
        count = units.counted(len(hang.pending), "rank")
        return FileVerdict(
            f"No rank is behind: all {num_ranks} ranks submitted the same collectives, and on "
            f"{count} some are not completed. Fix: look for network and GPU errors (dmesg).",
            gravity=Gravity.WARNING,
        )
    done = "submitted and completed" if hang.completions_known else "submitted"
    return FileVerdict(f"No rank is behind: all {num_ranks} ranks {done} the same collectives.")


def _widest(hang: Hang, kind: str, ranks: Sequence[int]) -> BlockedCollective:
    """The collective that most of these ranks are missing in; the first of them."""
    of_kind = [call for call in hang.first if call.kind == kind]
    return max(of_kind, key=lambda call: len(set(call.ranks) & set(ranks)))


def _have(ranks: Sequence[int]) -> str:
    return f"{ranks_named(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _line(one: BlockedCollective) -> str:
    verb = "not submitted" if one.kind == MISSING else "not completed"
    return f"{_name(one)}, Seq {one.seq} of {one.group}: {verb} by {ranks_named(one.ranks)}"


def _what(one: BlockedCollective) -> str:
    group = one.group.partition(" (")[0]
    return f"{_name(one)} (Seq {one.seq} of process group {group})"


def _name(one: BlockedCollective) -> str:
    return one.name or "collective"
