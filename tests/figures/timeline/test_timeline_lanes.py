import numpy as np
import pytest

from hvdprof.figures.timeline.event_details import bin_facts, event_facts, timeline_passes
from hvdprof.figures.timeline.timeline_figure import MOST_BARS, timeline_view
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, pass_lanes
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.traced_run import MS, PASS_ID, event_row, fused_events, part_rows, traced_run


def lanes_of(kind=LaneKind.EXECUTIONS, **tables):
    return pass_lanes(traced_run(**tables), PASS_ID, kind)


def busy_ms(lanes, lane, category):
    bins = lanes.spans.bins(
        lanes.origin_ns, lanes.origin_ns + lanes.length_ns, np.array([lane]), most=1
    )
    return bins.busy[0, CATEGORIES.index(category), 0] * lanes.length_ns / MS


def test_ranks_come_first_and_then_what_horovod_did():
    assert lanes_of().names == ("rank 0 node1", "rank 1 node2", "negotiation", "executions")
    assert lanes_of(LaneKind.TENSORS).names[2:] == ("allreduce.fc.bias", "allreduce.fc.weight")


def test_every_part_of_a_rank_takes_its_time():
    lanes = lanes_of()
    for part, expected in {"data": 1, "forward": 5, "backward": 8, "optimizer": 5}.items():
        assert busy_ms(lanes, 1, part) == pytest.approx(expected)
    assert busy_ms(lanes, 1, "blocked") == pytest.approx(4)


def test_a_fused_execution_counts_once_for_each_kind():
    lanes = lanes_of()
    assert busy_ms(lanes, 3, "operation") == pytest.approx(3.2)
    assert busy_ms(lanes, 3, "copy") == pytest.approx(0.4)
    assert busy_ms(lanes, 3, "transfer") == pytest.approx(2.5)
    everything = np.arange(4)
    in_executions = lanes.spans.within(0, 2**62, np.array([3]))
    assert len(in_executions.row) == 3
    assert lanes.spans.count(0, 2**62, everything) == len(lanes.spans) == 2 * 5 + 2 + 3


def test_an_interval_without_an_end_reaches_to_the_end_of_the_pass():
    rows = [*fused_events(), event_row("negotiation", "NEGOTIATE_ALLREDUCE", 16.0, -1)]
    lanes = lanes_of(events=EVENTS.frame(rows))
    assert lanes.num_ranks == 0
    assert busy_ms(lanes, 0, "negotiation") == pytest.approx(6.5 + 17.8 - 16.0, abs=0.01)


def test_a_search_keeps_the_ranks_and_the_tensors_of_that_name():
    assert lanes_of(LaneKind.TENSORS).matching("WEIGHT").tolist() == [0, 1, 3]


def test_few_events_are_bars_and_many_are_bins_and_both_say_so():
    lanes = lanes_of()
    few = timeline_view(lanes, np.arange(4), 0, lanes.length_ns)
    assert not few.is_binned
    assert few.caption.startswith("15 events, each drawn, and ")
    bars = [trace for trace in few.figure.data if trace.type == "bar"]
    assert len([x for trace in bars for x in trace.x]) == 15
    copies = [
        row | {"start_ns": row["start_ns"] + 30 * MS * number, "fusion_id": -1}
        for number in range(300)
        for row in part_rows(0, 1) + part_rows(1, 1)
    ]
    lanes = lanes_of(events=EVENTS.frame(copies))
    many = timeline_view(lanes, np.arange(2), 0, lanes.length_ns)
    assert many.is_binned
    assert many.caption.startswith("binned, 3,000 events")
    assert len(copies) > MOST_BARS
    grid = next(trace for trace in many.figure.data if trace.type == "heatmap")
    assert grid.z.shape == (2, 1_500)
    assert grid.z.dtype == np.uint8


def test_the_colour_of_a_bin_is_what_took_most_of_it():
    copies = [
        row | {"start_ns": row["start_ns"] + 30 * MS * number}
        for number in range(500)
        for row in part_rows(0, 1)
    ]
    lanes = lanes_of(events=EVENTS.frame(copies))
    view = timeline_view(lanes, np.arange(1), 0, 15_000 * MS)
    grid = next(trace for trace in view.figure.data if trace.type == "heatmap")
    # Bins are 10 ms, from the begin of the first part on: data and forward lie in the first.
    assert grid.dx == pytest.approx(10, rel=1e-3)
    names = [CATEGORIES[(int(code) - 1) // 12] if code else "" for code in grid.z[0]]
    assert names[:3] == ["forward", "backward", ""]


def test_nothing_recorded_is_said():
    lanes = lanes_of(events=EVENTS.empty())
    view = timeline_view(lanes, np.arange(0), 0, lanes.length_ns)
    assert view.caption == "No events in this view."


def test_hostile_names_are_shown_letter_for_letter():
    name = '<a href="javascript:alert(1)">x</a>'
    rows = [event_row("operation", "ALLREDUCE", 1, 2, tensor=name, fusion_id=1)]
    lanes = lanes_of(LaneKind.TENSORS, events=EVENTS.frame(rows))
    figure = timeline_view(lanes, np.arange(1), 0, lanes.length_ns).figure
    assert "<a" not in figure.to_json().replace("\\u003c", "<")
    assert "&lt;" in figure.layout.yaxis.ticktext[0]


def test_an_event_has_its_facts_and_its_batch_mates():
    lanes = lanes_of()
    row = int(np.flatnonzero(lanes.run.events["activity"] == "GLOO_ALLREDUCE")[0])
    facts = event_facts(lanes, row)
    assert facts.title == "GLOO_ALLREDUCE"
    assert dict(facts.facts)["duration"] == "2.50 ms"
    assert facts.mates == (("allreduce.fc.bias", "200 B"), ("allreduce.fc.weight", "400 B"))
    assert facts.lane == 3
    assert event_facts(lanes, 10**9) is None


def test_a_bin_says_how_it_was_spent():
    lanes = lanes_of()
    facts = dict(bin_facts(lanes, 0, 17 * MS, 4 * MS))
    assert facts["lane"] == "rank 0 node1"
    assert float(facts["blocked"].removesuffix(" %")) == pytest.approx(100)


def test_the_trace_pass_comes_first():
    assert timeline_passes(traced_run()) == {PASS_ID: f"{PASS_ID} (trace, 2 ranks)"}
