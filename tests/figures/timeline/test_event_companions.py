import numpy as np

from hvdprof.figures.timeline.event_companions import same_event, sampled_lines
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from hvdprof.model.tables.line_tables import LINE_SAMPLES
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import MS, PASS_ID, SEGMENT_ID, fused_events, part_rows, traced_run


def event_of(lanes, activity, rank=0):
    events = lanes.run.events
    own = (events["activity"] == activity) & (events["rank"] == rank)
    return events.iloc[int(np.flatnonzero(own)[0])]


def test_the_same_phase_of_the_step_is_listed_by_rank_the_longest_first():
    rows = [*part_rows(0, 1), *part_rows(1, 1), *part_rows(1, 2)]
    late = next(row for row in rows if row["rank"] == 1 and row["activity"] == "data")
    late["dur_ns"] += 3 * MS
    late["start_ns"] += MS
    lanes = pass_lanes(traced_run(events=EVENTS.frame(rows)), PASS_ID)
    found = same_event(lanes, event_of(lanes, "data"))
    assert [(one.rank, one.dur_ns, one.later_ns) for one in found] == [
        (1, 4 * MS, 1 * MS),
        (0, 1 * MS, 0),
    ]
    assert lanes.run.events["rank"].iloc[found[0].event] == 1


def test_what_one_rank_alone_has_is_compared_with_nothing():
    lanes = pass_lanes(traced_run(events=EVENTS.frame(part_rows(0, 1))), PASS_ID)
    assert same_event(lanes, event_of(lanes, "data")) == ()
    lanes = pass_lanes(traced_run(events=EVENTS.frame(fused_events())), PASS_ID)
    assert same_event(lanes, event_of(lanes, "GLOO_ALLREDUCE")) == ()


def test_lines_are_those_of_the_phase_the_rank_and_the_step():
    common = {"pass_id": PASS_ID, "segment": SEGMENT_ID, "process": "main", "steps": 1}
    place = {"phase": "data", "rank": 0, "step": 1, "file": "train.py", "function": "load"}
    rows = [
        common | place | {"line": 7, "samples": 3},
        common | place | {"line": 8, "samples": 5, "step": 0, "steps": 4},
        common | place | {"line": 1, "samples": 9, "rank": 1},
        common | place | {"line": 2, "samples": 9, "phase": "forward"},
        common | place | {"line": 3, "samples": 9, "step": 2},
        common | place | {"line": 4, "samples": 9, "process": "worker"},
    ]
    lanes = pass_lanes(traced_run(line_samples=declared_rows(LINE_SAMPLES, *rows)), PASS_ID)
    assert sampled_lines(lanes, event_of(lanes, "data")) == (
        ("train.py:8 load", "5 samples in steps 0 to 3"),
        ("train.py:7 load", "3 samples"),
    )
    assert sampled_lines(lanes, event_of(lanes, "GLOO_ALLREDUCE")) == ()
