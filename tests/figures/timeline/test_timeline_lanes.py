import numpy as np
import pytest

from hvdprof.figures.timeline.event_details import (
    bin_facts,
    derived_facts,
    event_facts,
    timeline_passes,
)
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, pass_lanes
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.window_tables import EVALUATIONS
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    SEGMENT_ID,
    START_NS,
    event_row,
    fused_events,
    traced_run,
)


def lanes_of(kind=LaneKind.EXECUTIONS, **tables):
    return pass_lanes(traced_run(**tables), PASS_ID, kind)


def busy_ms(lanes, lane, category):
    bins = lanes.spans.bins(
        lanes.origin_ns, lanes.origin_ns + lanes.length_ns, np.array([lane]), most=1
    )
    return bins.busy[0, CATEGORIES.index(category), 0] * lanes.length_ns / MS


def test_ranks_come_first_and_then_what_horovod_did():
    assert lanes_of().names == (
        *("rank 0 node1", "rank 1 node2"),
        # Those of the two tensors overlap.
        *("negotiation", "negotiation 2", "executions"),
    )
    assert lanes_of(LaneKind.TENSORS).names[2:] == ("allreduce.fc.bias", "allreduce.fc.weight")


def test_every_part_of_a_rank_takes_its_time():
    lanes = lanes_of()
    for part, expected in {"data": 1, "forward": 5, "backward": 8, "optimizer": 5}.items():
        assert busy_ms(lanes, 1, part) == pytest.approx(expected)
    assert busy_ms(lanes, 1, "blocked") == pytest.approx(4)


def test_a_fused_execution_counts_once_for_each_kind():
    lanes = lanes_of()
    assert busy_ms(lanes, 4, "operation") == pytest.approx(3.2)
    assert busy_ms(lanes, 4, "copy") == pytest.approx(0.4)
    assert busy_ms(lanes, 4, "transfer") == pytest.approx(2.5)
    everything = np.arange(5)
    in_executions = lanes.spans.within(0, 2**62, np.array([4]))
    assert len(in_executions.row) == 3
    assert lanes.spans.count(0, 2**62, everything) == len(lanes.spans) == 2 * (5 + 1) + 2 + 3


def test_an_interval_without_an_end_reaches_to_the_end_of_the_pass():
    rows = [*fused_events(), event_row("negotiation", "NEGOTIATE_ALLREDUCE", 16.0, -1)]
    lanes = lanes_of(events=EVENTS.frame(rows))
    assert lanes.num_ranks == 0
    assert busy_ms(lanes, 0, "negotiation") == pytest.approx(6.5 + 17.8 - 16.0, abs=0.01)


def row_of(lanes, activity, place=0):
    return int(np.flatnonzero(lanes.run.events["activity"] == activity)[place])


def test_an_event_has_its_facts_and_its_whole_execution():
    lanes = lanes_of()
    facts = event_facts(lanes, row_of(lanes, "GLOO_ALLREDUCE"))
    assert facts.title == "GLOO_ALLREDUCE"
    assert dict(facts.facts)["duration"] == "2.50 ms"
    assert facts.execution == (("allreduce.fc.bias", "200 B"), ("allreduce.fc.weight", "400 B"))
    assert dict(facts.execution_facts) == {
        "starts": "14.600 ms",
        "takes": "3.20 ms",
        "payload": "600 B",
        "MEMCPY_IN_FUSION_BUFFER": "400 µs",
        "GLOO_ALLREDUCE": "2.50 ms",
    }
    assert facts.lane == 4
    assert facts.values["dur_ns"] == 2_500_000
    assert event_facts(lanes, 10**9) is None
    assert event_facts(lanes, -1) is None


def test_an_event_of_a_later_tensor_is_drawn_where_its_execution_is():
    lanes = lanes_of()
    second = event_facts(lanes, row_of(lanes, "GLOO_ALLREDUCE", 1))
    assert dict(second.facts)["tensor"] == "allreduce.fc.weight"
    assert second.lane == 4


def test_the_previous_and_the_next_event_have_the_same_name_rank_and_tensor():
    rows = [
        event_row("negotiation", "NEGOTIATE_ALLREDUCE", at, 1, tensor=tensor)
        for at, tensor in ((9, "a"), (1, "a"), (5, "b"), (7, "a"))
    ]
    lanes = lanes_of(events=EVENTS.frame(rows))
    facts = event_facts(lanes, 3)
    assert (facts.previous, facts.next) == (1, 0)
    assert event_facts(lanes, 1).previous == -1


def test_a_bin_says_how_it_was_spent():
    lanes = lanes_of()
    facts = dict(bin_facts(lanes, 0, 17 * MS, 4 * MS))
    assert facts["lane"] == "rank 0 node1"
    assert float(facts["blocked"].removesuffix(" %")) == pytest.approx(100)


def test_the_trace_pass_comes_first():
    assert timeline_passes(traced_run()) == {PASS_ID: f"{PASS_ID} (trace, 2 ranks)"}


def test_time_outside_all_phases_is_an_interval_with_a_name():
    lanes = lanes_of()
    # From 1 to 2 ms of step 1, between data and forward.
    assert busy_ms(lanes, 0, "outside") == pytest.approx(1)
    found = derived_facts(lanes, 0, 1_500_000)
    assert found["title"] == "Outside all phases"
    assert dict(found["facts"])["step"] == "1"
    assert (found["start_ns"], found["dur_ns"]) == (1 * MS, 1 * MS)
    assert derived_facts(lanes, 0, 500_000) == {}


def test_an_evaluation_after_the_last_step_is_drawn_and_is_not_outside():
    row = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "rank": 1,
        "step": 2,
        "start_ns": START_NS + 40 * MS,
        "dur_ns": 6 * MS,
        "rest_ns": 1 * MS,
    }
    lanes = lanes_of(evaluations=declared_rows(EVALUATIONS, row))
    assert busy_ms(lanes, 1, "evaluation") == pytest.approx(7)
    assert busy_ms(lanes, 0, "evaluation") == 0
    assert lanes.length_ns == 27 * MS
    assert derived_facts(lanes, 1, 22 * MS)["title"] == "Evaluation"


def test_negotiations_that_overlap_lie_apart_and_the_fifth_shares_the_last_lane():
    rows = [
        event_row("negotiation", "NEGOTIATE_ALLREDUCE", at, 9, tensor=f"t{at}") for at in range(6)
    ]
    lanes = lanes_of(events=EVENTS.frame(rows))
    assert lanes.names[-5:] == (
        *("negotiation", "negotiation 2", "negotiation 3", "negotiation 4", "executions"),
    )
    assert lanes.spans.count(0, 2**62, np.array([lanes.num_ranks + 3])) == 3
