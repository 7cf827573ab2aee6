"""Calls of several ranks become one collective by sequence number, or by order with checks."""

import random

import pandas as pd
import pytest

from hvdprof.ingest.tables.collective_matching import (
    SubmittedCall,
    match_collectives,
    with_matches,
)
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES

GRADIENTS, INPUTS = ("ALLREDUCE", "float", 400), ("ALLTOALL", "long", 64)
_KINDS = (("ALLREDUCE", 4), ("ALLREDUCE", 8), ("ALLGATHER", None), ("SEND", 4))


def _call(
    signature: tuple[str, str, int | None] = GRADIENTS,
    *,
    step: int = 0,
    seq: int | None = None,
    group: str = "default_pg",
) -> SubmittedCall:
    return SubmittedCall(group, step, seq, signature)


def _ids(*calls: list[SubmittedCall]) -> list[list[int]]:
    return [ids.tolist() for ids in match_collectives(dict(enumerate(calls))).ids.values()]


def test_equal_orders_match_within_a_step() -> None:
    own = [_call(), _call(INPUTS), _call(step=1)]
    assert _ids(own, list(own)) == [[0, 1, 2], [0, 1, 2]]


def test_a_rank_whose_trace_begins_later_matches_by_number() -> None:
    early = [_call(seq=number, step=0) for number in (1, 2, 3)]
    late = [_call(seq=number, step=5) for number in (2, 3)]
    assert _ids(early, late) == [[-1, 0, 1], [0, 1]]


def test_a_number_with_another_payload_is_another_collective() -> None:
    assert _ids([_call(seq=1)], [_call(INPUTS, seq=1)]) == [[-1], [-1]]


def test_calls_of_a_coalesced_group_share_a_number_and_match_by_order() -> None:
    both = [_call(seq=7), _call(seq=7)]
    assert _ids(both, list(both)) == [[0, 1], [0, 1]]


def test_after_a_missing_call_the_order_is_found_again() -> None:
    usual = [_call(), _call(INPUTS), _call()]
    lacking = [_call(), _call()]
    first, second, third = _ids(usual, list(usual), lacking)
    assert first == second
    assert third == [first[0], first[2]]


def test_a_differing_step_does_not_shift_the_next_one() -> None:
    whole = [_call(), _call(), _call(INPUTS, step=1)]
    cut = [_call(), _call(INPUTS, step=1)]
    assert _ids(whole, cut)[0][2] == _ids(whole, cut)[1][1] >= 0


def test_groups_are_matched_apart_and_point_to_point_not_at_all() -> None:
    sent = ("SEND", "float", 4)
    own = [_call(group="tp 1"), _call(group="dp 2"), _call(sent)]
    other = [_call(group="dp 2"), _call(group="tp 1"), _call(sent)]
    assert _ids(own, other) == [[0, 1, -1], [1, 0, -1]]


def test_calls_without_a_partner_are_counted() -> None:
    found = match_collectives({0: [_call(), _call()], 1: [_call(INPUTS), _call(INPUTS)]})
    assert (found.num_calls, found.num_unmatched) == (4, 4)


def test_a_rank_alone_matches_nothing_and_misses_nothing() -> None:
    found = match_collectives({3: [_call()]})
    assert (found.ids[3].tolist(), found.num_calls, found.num_unmatched) == ([-1], 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_numbered_calls_match_at_once_as_they_do_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    names = ("rank", "group", "seq", "collective", "size_bytes")
    rows = [
        (draw.randrange(3), draw.choice("ab"), draw.randrange(6), *draw.choice(_KINDS))
        for _ in range(60)
    ]
    calls = pd.DataFrame(rows, columns=list(names)).astype({"size_bytes": "Int64"})
    calls = calls.assign(step=-1, dtype="float", clock_error_ns=0)
    for column in RANK_COLLECTIVES.columns:
        if column.name not in calls and column.name != "match_id":
            calls[column.name] = {"category": "", "str": ""}.get(column.dtype, 0)
    submitted: dict[int, list[SubmittedCall]] = {}
    for rank, group, seq, collective, size in rows:
        call = SubmittedCall(group, -1, seq, (collective, "float", size))
        submitted.setdefault(rank, []).append(call)
    expected = {rank: ids.tolist() for rank, ids in match_collectives(submitted).ids.items()}
    found = with_matches(calls).groupby("rank")["match_id"].agg(list).to_dict()
    assert found == expected
