from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.timeline.horovod_timeline import TimelineFile, parse_timeline
from hvdprof.ingest.timeline.meaning.ticks import cycle_of
from hvdprof.model.notes import texts
from tests.builders.timeline_rows import rows_of
from tests.builders.timeline_writer import TimelineWriter

CYCLE_US = 1000


def negotiated(arrivals: list[tuple[int, int]], *, with_operation: bool = True) -> TimelineFile:
    """One use whose ranks got ready after so many µs each."""
    writer = TimelineWriter()
    writer.begin("allreduce.a", "NEGOTIATE_ALLREDUCE")
    for rank, after_us in arrivals:
        writer.now_us += after_us
        writer.rank("allreduce.a", rank)
    writer.end("allreduce.a")
    if with_operation:
        writer.execute(["allreduce.a"])
    return parse_timeline(writer.text())


def first_and_last(file: TimelineFile) -> tuple[object, object]:
    return file.uses.first_rank[0], file.uses.last_rank[0]


def test_ranks_a_cycle_apart_are_named() -> None:
    file = negotiated([(0, 0), (2, CYCLE_US), (1, CYCLE_US)])
    assert first_and_last(file) == (0, 1)
    assert file.uses.last_after_us[0] == CYCLE_US + 1
    assert file.uses.num_ticks.tolist() == [3]


def test_ranks_of_one_cycle_are_a_tie() -> None:
    file = negotiated([(0, 0), (1, 5), (2, CYCLE_US - 50)])
    assert first_and_last(file) == (pd.NA, pd.NA)
    assert file.uses.last_after_us[0] == CYCLE_US - 49


def test_a_single_rank_is_neither_first_nor_last() -> None:
    assert first_and_last(negotiated([(0, 0)])) == (pd.NA, pd.NA)


def test_a_use_out_of_the_cache_names_no_rank() -> None:
    file = negotiated([])
    assert first_and_last(file) == (pd.NA, pd.NA)
    assert file.uses.last_after_us.isna().tolist() == [True]
    assert file.uses.num_ticks.tolist() == [0]


def test_ticks_of_a_negotiation_that_never_ended_belong_to_it() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "NEGOTIATE_ALLREDUCE")
    writer.rank("allreduce.a", 0)
    file = parse_timeline(writer.text())
    assert file.uses.num_ticks.tolist() == [1]
    assert file.uses.negotiation_us.isna().tolist() == [True]


def test_ticks_outside_of_negotiations_are_counted_and_become_marks() -> None:
    writer = TimelineWriter()
    writer.rank("allreduce.a", 1)
    writer.negotiate(["allreduce.a"])
    writer.execute(["allreduce.a"])
    writer.rank("allreduce.a", 1)
    file = parse_timeline(writer.text())
    assert "2 rank ticks lie outside of every negotiation" in texts(file.problems)
    marks = [row for row in rows_of(file) if row.phase == "mark"]
    assert [(row.rank, row.collective, row.tensor) for row in marks] == [(1, "", "allreduce.a")] * 2
    assert file.uses.num_ticks.tolist() == [0]


@pytest.mark.slow
@given(
    st.lists(
        st.permutations(range(4)).flatmap(
            lambda order: st.lists(st.integers(0, 3000), min_size=4, max_size=4).map(
                lambda waits: list(zip(order, waits, strict=True))
            )
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_last_rank_is_named_where_it_came_a_cycle_after_the_others(
    uses: list[list[tuple[int, int]]],
) -> None:
    writer = TimelineWriter()
    for arrivals in uses:
        for tensor in ("allreduce.a", "allreduce.b"):
            writer.begin(tensor, "NEGOTIATE_ALLREDUCE")
        for rank, after_us in arrivals:
            writer.now_us += after_us
            for tensor in ("allreduce.a", "allreduce.b"):
                writer.rank(tensor, rank)
        for tensor in ("allreduce.a", "allreduce.b"):
            writer.end(tensor)
        writer.execute(["allreduce.a", "allreduce.b"])
    found = parse_timeline(writer.text()).uses
    for number, arrivals in enumerate(uses):
        # The tick of the other tensor lies between two of the same tensor.
        named = arrivals[-1][0] if arrivals[-1][1] + 2 >= CYCLE_US else None
        for row in np.flatnonzero(found.occurrence == number):
            last = found.last_rank[row]
            assert (None if last is pd.NA else last) == named


@pytest.mark.parametrize(("has_epoch", "length_us"), [(True, 1000), (False, 5000)])
def test_without_marks_the_cycle_is_the_default_of_the_version(
    has_epoch: bool, length_us: int
) -> None:
    cycle = cycle_of({}, has_epoch=has_epoch)
    assert cycle.length_us == length_us
    assert "not in the file" in cycle.origin


def test_marks_give_the_cycle() -> None:
    writer = TimelineWriter()
    for _ in range(5):
        writer.cycle()
        writer.now_us += 2499
    facts = parse_timeline(writer.text()).facts
    assert facts.cycle.length_us == 2500
    assert facts.cycle.origin == "median of 4 marked cycles"


@given(st.lists(st.integers(-5, 9), min_size=3))
def test_the_cycle_is_the_median_of_the_distances(lengths: list[int]) -> None:
    cycle = cycle_of(Counter(lengths), has_epoch=True)
    assert cycle.length_us == max(int(np.median(lengths)), 1)
    assert cycle.origin == f"median of {len(lengths)} marked cycles"
