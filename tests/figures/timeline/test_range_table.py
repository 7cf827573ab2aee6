import pytest

from hvdprof.figures.timeline.counters import executions_of
from hvdprof.figures.timeline.range_table import range_facts, view_answer
from hvdprof.figures.timeline.timeline_lanes import LaneKind, pass_lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice, timeline_rows
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import EVENTS, STEPS
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    SEGMENT_ID,
    START_NS,
    event_row,
    fused_events,
    step_row,
    traced_run,
)

EXECUTION = {
    "pass_id": PASS_ID,
    "segment": SEGMENT_ID,
    "step": 1,
    "fusion_id": 7,
    "start_ns": START_NS + 24 * MS,
    "dur_ns": 3 * MS,
    "transfer_ns": 2.0 * MS,
    "size_bytes": 600,
    "busbw_gb_per_s": 0.5,
}


def answer(rows, first_ms=0.0, last_ms=1e6, executions=(EXECUTION,)):
    """The answer between two times after the start of step 0."""
    lanes = pass_lanes(traced_run(steps=STEPS.frame(rows)), PASS_ID)
    found = executions_of([declared_rows(COLLECTIVES, *executions)], PASS_ID)
    ends = (START_NS + round(first_ms * MS), START_NS + round(last_ms * MS))
    return view_answer(lanes, found, *ends)


def steps(*blocked_ms, **values):
    """Steps of 20 ms; blocked time of every rank in each."""
    return [
        step_row(rank, step, blocked_ns=round(blocked * MS), **values)
        for step, row in enumerate(blocked_ms)
        for rank, blocked in enumerate(row)
    ]


@pytest.mark.heavy
def test_steady_steps_have_their_median_the_blocked_share_and_the_straggler():
    rows = steps((9, 9), (4, 4), (8, 0), (8, 0), (0, 3))
    assert answer(rows) == (
        "4 steady steps in view: median 20.0 ms, ranks blocked 16.9 %;"
        " straggler in 3 of 4: most often rank 1."
    )
    assert answer(rows, 20, 40 + 9) == "Step 1: 20.0 ms, ranks blocked 20.0 %; no straggler."
    assert answer(rows, 40, 60) == (
        "Step 2: 20.0 ms, ranks blocked 20.0 %; straggler rank 1, 8.00 ms behind the other rank."
    )
    assert answer(rows, 21, 22).startswith("Part of step 1: 20.0 ms, ")
    assert answer(rows, 0, 20).startswith("Warm-up step 0: 20.0 ms, ")


def test_segments_have_no_common_median():
    later = [
        step_row(
            rank, step, segment="later", dur_ns=10 * MS, start_ns=START_NS + (500 + 10 * step) * MS
        )
        for rank in range(2)
        for step in range(1, 4)
    ]
    text = answer(steps((4, 4), (4, 4), (4, 4)) + later)
    assert text == (
        f"2 segments in view: median step 10.0 ms (later) to 20.0 ms ({SEGMENT_ID}); no straggler."
    )


def test_blocked_time_that_was_not_observed_is_no_zero():
    rows = [row | {"blocked_ns": None} for row in steps((0, 0), (0, 0), (0, 0))]
    assert answer(rows) == "2 steady steps in view: median 20.0 ms; no straggler."


def test_nothing_is_in_view():
    assert answer(steps((4, 4)), 5_000, 6_000) == "No step in view."


def test_one_rank_has_no_straggler():
    assert answer(steps((4,), (4,), (4,))) == (
        "2 steady steps in view: median 20.0 ms, ranks blocked 20.0 %."
    )


def test_a_timeline_without_ranks_names_its_executions():
    run = traced_run(steps=STEPS.empty(), events=EVENTS.frame(fused_events()))
    lanes = pass_lanes(run, PASS_ID)
    found = executions_of([declared_rows(COLLECTIVES, EXECUTION)], PASS_ID)
    ends = (START_NS, START_NS + 100 * MS)
    assert view_answer(lanes, found, *ends) == (
        "No step in view; 1 execution, 600 B, transfer 2.00 ms;"
        " longest negotiation 6.50 ms (allreduce.fc.bias)."
    )
    # It ends 1 ms after the window begins: its 2 ms of transfer are not in it.
    cut = (START_NS + 26 * MS, START_NS + 100 * MS)
    assert view_answer(lanes, found, *cut).startswith("No step in view; no executions")
    after = (START_NS + 50 * MS, START_NS + 100 * MS)
    assert view_answer(lanes, found, *after) == "No step in view; no executions."


@pytest.mark.parametrize("kind", LaneKind)
def test_a_negotiation_without_an_end_is_said(kind):
    events = fused_events()
    events[1]["dur_ns"] = -1
    run = traced_run(steps=STEPS.empty(), events=EVENTS.frame(events))
    text = view_answer(
        pass_lanes(run, PASS_ID, kind), executions_of([], PASS_ID), START_NS, START_NS + 100 * MS
    )
    assert text == (
        "No step in view; no executions;"
        " negotiation without an end after 8.80 ms (allreduce.fc.weight)."
    )


def test_a_hang_lasts_to_the_mark_of_the_last_rank_that_arrives():
    events = [*fused_events(), event_row("mark", "1", 2008.0, 0)]
    events[1]["dur_ns"] = -1
    run = traced_run(steps=STEPS.empty(), events=EVENTS.frame(events))
    lanes = pass_lanes(run, PASS_ID)
    assert lanes.length_ns == (2008 - 8) * MS
    text = view_answer(
        lanes, executions_of([], PASS_ID), lanes.origin_ns, lanes.origin_ns + lanes.length_ns
    )
    assert "negotiation without an end after 1,999 ms (allreduce.fc.weight)" in text


def facts_of(first_ms, last_ms, **choice):
    lanes = pass_lanes(traced_run(), PASS_ID)
    chosen = RowChoice(**choice)
    executions = declared_rows(
        COLLECTIVES,
        {
            "pass_id": PASS_ID,
            "start_ns": START_NS + 34 * MS,
            "dur_ns": 3 * MS,
            "transfer_ns": 2 * MS,
            "size_bytes": 600,
            "busbw_gb_per_s": 0.25,
        },
    )
    return range_facts(
        lanes,
        timeline_rows(lanes, chosen)[0],
        chosen,
        executions_of([executions], PASS_ID),
        (round(first_ms * MS), round(last_ms * MS)),
    )


def test_a_row_per_name_and_rank_counts_the_time_inside_of_the_range():
    found = facts_of(4, 12)
    rows = {(row.name, row.lane): row for row in found.rows}
    forward = rows["forward", "rank 0 node1"]
    assert (forward.count, forward.sum_ns, forward.mean_ns) == (1, 3 * MS, 5 * MS)
    assert forward.share == pytest.approx(3 / 8)
    assert forward.p95_ns == 5 * MS
    assert rows["backward", "rank 1 node2"].rank == 1
    assert [row.sum_ns for row in found.rows] == sorted(
        (row.sum_ns for row in found.rows), reverse=True
    )


def test_wait_transfer_and_bandwidth_of_the_range_are_named():
    facts = dict(facts_of(12, 20).facts)
    assert facts["range"] == "8.00 ms"
    assert facts["transfer"] == "2.00 ms"
    assert facts["busbw"] == "0.25 GB/s"
    assert facts["payload"] == "600 B"
    # Blocked from 15 to 19 ms.
    assert facts["blocked"].startswith("4.00 ms per rank")


def test_what_is_hidden_is_not_counted():
    names = {row.name for row in facts_of(0, 20, hidden=frozenset({"forward"})).rows}
    assert "forward" not in names
    assert "backward" in names


def test_an_empty_range_has_no_rows():
    assert {row.name for row in facts_of(1.2, 1.3).rows} == {"outside all phases"}
    assert facts_of(21, 22).rows == ()
