import pytest

from hvdprof.figures.timeline.event_search import MOST_HITS, events_named, steps_of_kind
from hvdprof.figures.timeline.rank_times import StepKind
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.traced_run import MS, PASS_ID, event_row, traced_run


def lanes(**tables):
    return pass_lanes(traced_run(**tables), PASS_ID)


def test_hits_have_step_rank_and_time_in_order_of_time():
    found = events_named(lanes(), "FC.WEIGHT")
    assert found.number == 4
    assert [hit.start_ns for hit in found.hits] == sorted(hit.start_ns for hit in found.hits)
    first = found.hits[0]
    assert first.name == "NEGOTIATE_ALLREDUCE allreduce.fc.weight"
    assert (first.step, first.rank, first.start_ns) == (1, 0, 9 * MS)


@pytest.mark.heavy
def test_activities_are_found_by_their_name_and_marks_are_none():
    assert {hit.rank for hit in events_named(lanes(), "forward").hits} == {0, 1}
    assert events_named(lanes(), "CYCLE").number == 0
    assert events_named(lanes(), "nothing like it").hits == ()
    assert events_named(lanes(), "  ").number == 0


def test_hits_are_bounded_and_their_number_is_known():
    rows = [event_row("operation", "ALLREDUCE", at, 0.5) for at in range(MOST_HITS + 10)]
    found = events_named(lanes(events=EVENTS.frame(rows)), "allreduce")
    assert found.number == MOST_HITS + 10
    assert len(found.hits) == MOST_HITS


def test_steps_of_a_kind_are_hits():
    found = steps_of_kind(lanes(), StepKind.WARMUP)
    assert [(hit.name, hit.step, hit.dur_ns) for hit in found.hits] == [("step 0", 0, 20 * MS)]
    assert found.hits[0].event == -1
