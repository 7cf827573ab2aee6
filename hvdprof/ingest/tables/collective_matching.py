"""Which calls of several ranks are one collective: by sequence number, or by checked order."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import pandas as pd

from hvdprof.model.arrays import Int64s, is_missing
from hvdprof.model.tables.rank_collective_tables import NO_MATCH, RANK_COLLECTIVES

Signature = tuple[str, str, int | None]
"""Collective, type and bytes: what is the same on every rank."""

POINT_TO_POINT = ("SEND", "RECV")
"""Their two ends differ, so that order and signature do not match them."""


@dataclass(frozen=True, slots=True)
class SubmittedCall:
    """What identifies a call on one rank, in the order of submission within ``group``.

    ``step`` is -1 outside steps; ``seq`` is None where the source has no sequence numbers.
    """

    group: str
    step: int
    seq: int | None
    signature: Signature


@dataclass(frozen=True, slots=True)
class Matching:
    """By rank the number of the collective of each call, ``NO_MATCH`` without a partner.

    ``num_calls`` counts the calls compared, ``num_unmatched`` those of them without a partner.
    """

    ids: Mapping[int, Int64s]
    num_calls: int
    num_unmatched: int


Place = tuple[int, int]
"""A rank, and the place of a call among its calls."""


def match_collectives(calls: Mapping[int, Sequence[SubmittedCall]]) -> Matching:
    """The collectives of several ranks.

    A call with a sequence number matches those of the same group and number, provided that
    collective, type and size are the same. Others match by their order within a step and a group;
    where the ranks differ, those in between are skipped, and the next step begins anew.
    """
    ids = {rank: np.full(len(own), NO_MATCH, dtype=np.int64) for rank, own in calls.items()}
    num_calls, number = 0, 0
    for members in _groups(calls).values():
        if len(members) < 2:
            continue
        num_calls += sum(map(len, members.values()))
        for places in _matched(members, calls):
            for rank, place in places:
                ids[rank][place] = number
            number += 1
    num_matched = sum(int((found != NO_MATCH).sum()) for found in ids.values())
    return Matching(ids, num_calls, num_calls - num_matched)


def with_matches(calls: pd.DataFrame) -> pd.DataFrame:
    """RANK_COLLECTIVES of one job with ``match_id``; calls of a rank in their order.

    Args:
        calls: All other columns, of ranks that are in the job once.
    """
    if calls["seq"].notna().all():
        return RANK_COLLECTIVES.frame(calls.assign(match_id=_numbers(calls)))
    columns = ["rank", "group", "step", "seq", "collective", "dtype", "size_bytes"]
    submitted: dict[int, list[SubmittedCall]] = {}
    for rank, group, step, seq, collective, dtype, size in calls[columns].itertuples(
        index=False, name=None
    ):
        signature = str(collective), str(dtype), None if is_missing(size) else int(size)
        call = SubmittedCall(str(group), step, None if is_missing(seq) else int(seq), signature)
        submitted.setdefault(rank, []).append(call)
    matching = match_collectives(submitted)
    taken = {rank: iter(ids.tolist()) for rank, ids in matching.ids.items()}
    return RANK_COLLECTIVES.frame(
        calls.assign(match_id=[next(taken[rank]) for rank in calls["rank"]])
    )


def _numbers(calls: pd.DataFrame) -> Int64s:
    """What ``match_collectives`` gives calls that all have sequence numbers, many at once."""
    names = ["rank", "group", "collective", "dtype"]
    keys = pd.DataFrame({name: pd.factorize(calls[name])[0] for name in names})
    keys["seq"] = calls["seq"].to_numpy(np.int64)
    keys["size"] = calls["size_bytes"].fillna(-1).to_numpy(np.int64)
    keys = keys[~calls["collective"].isin(POINT_TO_POINT).to_numpy(dtype=bool)]
    keys = keys.sort_values("rank", kind="stable")
    keys["group"] = pd.factorize(keys["group"])[0]
    # The calls of a coalesced group share a number.
    keys["of_number"] = keys.groupby(["group", "rank", "seq"], sort=False).cumcount()
    alike = keys.groupby(list(keys.columns.drop("rank")), sort=False)
    is_shared = (alike["rank"].transform("size") > 1).to_numpy()
    shared = keys.assign(of=alike.ngroup())[is_shared]
    first = shared.drop_duplicates("of").sort_values("group", kind="stable")
    number = pd.Series(np.arange(len(first)), index=first["of"])
    ids = np.full(len(calls), NO_MATCH, dtype=np.int64)
    ids[shared.index] = number.reindex(shared["of"]).to_numpy()
    return ids


def _groups(
    calls: Mapping[int, Sequence[SubmittedCall]],
) -> dict[tuple[str, int], dict[int, list[int]]]:
    """The places of the calls of each rank by group and step; without the step where all have seq.

    A step begins at another moment on another rank, but a sequence number stays the same.
    """
    unnumbered = {call.group for own in calls.values() for call in own if call.seq is None}
    found: dict[tuple[str, int], dict[int, list[int]]] = {}
    for rank, own in calls.items():
        for place, call in enumerate(own):
            if call.signature[0] not in POINT_TO_POINT:
                key = call.group, call.step if call.group in unnumbered else -1
                found.setdefault(key, {}).setdefault(rank, []).append(place)
    return found


def _matched(
    members: Mapping[int, Sequence[int]], calls: Mapping[int, Sequence[SubmittedCall]]
) -> Iterator[list[Place]]:
    if all(calls[rank][place].seq is not None for rank, own in members.items() for place in own):
        yield from _by_number(members, calls)
        return
    signatures = {
        rank: tuple(calls[rank][place].signature for place in own) for rank, own in members.items()
    }
    usual = Counter(signatures.values()).most_common(1)[0][0]
    columns: list[list[Place]] = [[] for _ in usual]
    for rank, own in signatures.items():
        if own == usual:
            pairs = [(place, place) for place in range(len(usual))]
        else:
            blocks = SequenceMatcher(None, usual, own, autojunk=False).get_matching_blocks()
            pairs = [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]
        for column, place in pairs:
            columns[column].append((rank, members[rank][place]))
    yield from (column for column in columns if len(column) > 1)


def _by_number(
    members: Mapping[int, Sequence[int]], calls: Mapping[int, Sequence[SubmittedCall]]
) -> Iterator[list[Place]]:
    found: dict[tuple[int | None, int, Signature], list[Place]] = {}
    for rank, own in members.items():
        seen: Counter[int | None] = Counter()
        for place in own:
            call = calls[rank][place]
            # The calls of a coalesced group share a number.
            key = call.seq, seen[call.seq], call.signature
            seen[call.seq] += 1
            found.setdefault(key, []).append((rank, place))
    yield from (places for places in found.values() if len(places) > 1)
