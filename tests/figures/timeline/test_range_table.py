import pytest

from hvdprof.figures.timeline.counters import executions_of
from hvdprof.figures.timeline.range_table import range_facts
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice, timeline_rows
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import MS, PASS_ID, START_NS, traced_run


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
    assert facts_of(1.2, 1.3).rows == ()
