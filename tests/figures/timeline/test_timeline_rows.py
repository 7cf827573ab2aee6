import numpy as np
import pytest

from hvdprof.figures.timeline.timeline_lanes import LaneKind, pass_lanes
from hvdprof.figures.timeline.timeline_rows import (
    HOROVOD,
    RowChoice,
    RowKind,
    dropped_prefix,
    lanes_of,
    missed_filters,
    ranks_in,
    timeline_rows,
)
from hvdprof.model.tables.run_tables import EVENTS, RANKS, STEPS
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    part_rows,
    rank_row,
    step_row,
    traced_run,
)


def lanes(kind=LaneKind.EXECUTIONS):
    return pass_lanes(traced_run(), PASS_ID, kind)


def many_ranks(number=40, per_host=8, slow=17):
    """Ranks that need 15 ms of a step, and one that needs 19."""
    return pass_lanes(
        traced_run(
            events=EVENTS.frame([row for rank in range(number) for row in part_rows(rank, 1)]),
            ranks=RANKS.frame(
                [rank_row(rank, f"node{rank // per_host}") for rank in range(number)]
            ),
            steps=STEPS.frame(
                [
                    step_row(rank, step, blocked_ns=(1 if rank == slow else 5) * MS, warmup=False)
                    for rank in range(number)
                    for step in range(4)
                ]
            ),
        ),
        PASS_ID,
    )


def names(found, **choice):
    return [row.name for row in timeline_rows(found, RowChoice(**choice))[0]]


def test_ranks_stand_under_their_host_and_above_horovod():
    assert names(lanes()) == [
        *("node1: 1 rank", "rank 0", "node2: 1 rank", "rank 1"),
        *("bytes in flight", "busbw", "negotiation", "negotiation 2", "executions"),
    ]


def test_lanes_that_are_empty_are_folded_with_the_reason_until_they_are_opened():
    why = "its timeline holds steps 0 to 3, no step of the finding"
    assert names(lanes(), folded=why)[-1] == f"▸ Horovod: {why}"
    opened = names(lanes(), folded=why, opened=frozenset({HOROVOD}))
    assert opened[-6:-3] == [f"▾ Horovod: {why}", "bytes in flight", "busbw"]


def test_tensor_lanes_drop_what_all_names_begin_with():
    assert names(lanes(LaneKind.TENSORS))[-3:] == [
        "2 tensors: allreduce.fc.…",
        "bias",
        "weight",
    ]
    found = timeline_rows(lanes(LaneKind.TENSORS), RowChoice(tensor="WEIGHT"))[0]
    assert found[-1].name == found[-1].full == "allreduce.fc.weight"
    assert len(lanes_of(found)) == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a.b.c", "a.b.d"], "a.b."),
        (["conv1", "conv2"], ""),
        (["x/y.w", "x/z.w"], "x/"),
        (["one"], ""),
        ([], ""),
        (["a.b", "a.b"], "a."),
    ],
)
def test_a_prefix_ends_at_a_divider(given, expected):
    assert dropped_prefix(given) == expected


def test_many_ranks_are_folded_to_one_row_of_bands_beside_their_extremes():
    found = many_ranks()
    rows = timeline_rows(found, RowChoice())[0]
    assert [row.name for row in rows[:3]] == [
        *("40 ranks on 5 hosts", "rank 17 (slow)", "rank 0 (slow)"),
    ]
    assert [row.name.split()[-1] for row in rows[1:]] == (
        ["(slow)"] * 3 + ["(median)"] + ["(fast)"] * 3
    )
    assert rows[0].kind is RowKind.BANDS
    assert rows[0].opens == "all"
    assert len(rows[0].ranks) == 40


def test_folded_ranks_are_opened_by_host():
    found = many_ranks()
    opened = timeline_rows(found, RowChoice(opened=frozenset({"all", "node1"})))[0]
    assert [row.name for row in opened[:4]] == [
        "40 ranks on 5 hosts",
        "node0: 8 ranks",
        "node1: 8 ranks",
        "rank 8",
    ]
    assert len(lanes_of(opened)) == 8


def test_a_choice_of_few_ranks_is_not_folded():
    assert names(many_ranks(), ranks="0-1,17")[1:] == [
        "rank 0",
        "rank 1",
        "node2: 1 rank",
        "rank 17",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", [1]),
        ("0-1, 3", [0, 1, 3]),
        ("9", [0, 1, 2, 3]),
        ("x", [0, 1, 2, 3]),
        ("", [0, 1, 2, 3]),
    ],
)
def test_ranks_are_named_by_numbers_and_ranges(text, expected):
    assert ranks_in(text, np.arange(4)).tolist() == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (RowChoice(), []),
        (RowChoice(ranks="1", tensor="FC"), []),
        (RowChoice(ranks="7-9"), ['No rank of this pass is in "7-9": all are shown.']),
        (RowChoice(ranks="abc"), ['No rank of this pass is in "abc": all are shown.']),
        (RowChoice(tensor="nosuch"), ['No tensor of this pass contains "nosuch".']),
        # A pinned lane is no hit.
        (RowChoice(tensor="nosuch", pins=(3,)), ['No tensor of this pass contains "nosuch".']),
    ],
)
def test_a_filter_that_nothing_fits_is_said(choice, expected):
    found = lanes(LaneKind.TENSORS)
    rows, _ = timeline_rows(found, choice)
    assert missed_filters(rows, found, choice) == expected


def test_pinned_lanes_stand_on_top_and_unknown_ones_nowhere():
    rows = timeline_rows(lanes(), RowChoice(pins=(3, 99)))[0]
    assert rows[0].is_pinned
    assert rows[0].lane == 3
    assert not rows[1].is_pinned


def test_no_more_than_512_lanes_are_shown():
    found = many_ranks(number=600, per_host=600)
    rows, left_out = timeline_rows(found, RowChoice(opened=frozenset({"all"})))
    assert len(lanes_of(rows)) == 512
    assert left_out == 88
