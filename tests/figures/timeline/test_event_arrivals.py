from hvdprof.figures.timeline.event_companions import event_arrivals
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from hvdprof.model.tables.run_tables import ARRIVALS
from tests.builders.traced_run import MS, PASS_ID, arrival_row, traced_run


def arrivals_of(row, **tables):
    lanes = pass_lanes(traced_run(**tables), PASS_ID)
    return event_arrivals(lanes, lanes.run.events.iloc[row])


def test_the_last_rank_comes_first_with_what_the_others_wait():
    ready = [arrival_row(rank, 1, "allreduce.fc.bias", 8.0 + rank) for rank in range(3)]
    found = arrivals_of(0, arrivals=ARRIVALS.frame(ready))
    assert found.ranks == ((2, 0), (1, 1 * MS), (0, 2 * MS))
    assert found.last_ns == 10 * MS
    assert found.source == "recorder files"


def test_marks_of_the_timeline_stand_in_for_recorder_files():
    found = arrivals_of(0, arrivals=ARRIVALS.empty())
    assert found.ranks == ((1, 0), (0, round(6.5 * MS)))
    assert found.source.startswith("Horovod's timeline")


def test_an_event_without_a_tensor_has_none():
    ready = [arrival_row(0, 1, "", 8.0)]
    assert arrivals_of(10, arrivals=ARRIVALS.frame(ready)) is None
