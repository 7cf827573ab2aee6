"""Ranks of many processes put together to communicators."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.ingest.nccl.logbook import Member


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
