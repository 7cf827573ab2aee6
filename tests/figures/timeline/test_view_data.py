import base64

import numpy as np
import pytest

from hvdprof.figures.timeline.counters import executions_of
from hvdprof.figures.timeline.event_search import lane_notes, segment_spans
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, pass_lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice, timeline_rows
from hvdprof.figures.timeline.view_data import MOST_BARS, SHADES, Asked, view_data
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, STEPS
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    SEGMENT_ID,
    START_NS,
    arrival_row,
    fused_events,
    part_rows,
    step_row,
    traced_run,
)


def data_of(run, kind=LaneKind.EXECUTIONS, window=None, pixels=1_500, **choice):
    lanes = pass_lanes(run, PASS_ID, kind)
    chosen = RowChoice(**choice)
    first, last = window or (0, lanes.length_ns)
    execution = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "step": 1,
        "fusion_id": 7,
        "start_ns": START_NS + round(34.6 * MS),
        "dur_ns": round(3.2 * MS),
        "size_bytes": 600,
        "busbw_gb_per_s": 0.5,
    }
    return view_data(
        lanes,
        timeline_rows(lanes, chosen)[0],
        chosen,
        Asked(first, last, first, last, pixels),
        executions_of([declared_rows(COLLECTIVES, execution)], PASS_ID),
    )


def codes(data):
    raw = np.frombuffer(base64.b64decode(data["bins"]["codes"]), np.uint8)
    return raw.reshape(-1, data["bins"]["width"])


def repeated(number):
    return [
        row | {"start_ns": row["start_ns"] + 30 * MS * count, "fusion_id": -1}
        for count in range(number)
        for row in part_rows(0, 1) + part_rows(1, 1)
    ]


@pytest.mark.heavy
def test_few_events_are_bars_and_many_are_bins_and_both_say_so():
    few = data_of(traced_run())
    assert few["caption"].startswith("17 events, each drawn, and ")
    # Two of them are outside all phases, which no row holds.
    assert sorted(few["bars"]["id"])[:3] == [-1, -1, 0]
    many = data_of(traced_run(events=EVENTS.frame(repeated(300))))
    assert many["caption"].startswith("binned, 3,002 events")
    assert MOST_BARS < 3_000
    assert codes(many).shape == (2, 1_500)


def test_a_bar_has_its_place_its_names_and_its_row():
    bars = data_of(traced_run())["bars"]
    at = bars["id"].index([row["activity"] for row in fused_events()].index("GLOO_ALLREDUCE"))
    assert bars["activities"][bars["activity"][at]] == "GLOO_ALLREDUCE"
    assert bars["tensors"][bars["tensor"][at]] == "allreduce.fc.bias"
    assert bars["lane"][at] == 4
    assert CATEGORIES[bars["kind"][at]] == "transfer"
    assert bars["length"][at] == round(2.5 * MS)
    # What is drawn on top comes last.
    inner = [CATEGORIES[kind] in ("blocked", "copy", "transfer") for kind in bars["kind"]]
    assert inner == sorted(inner)


def test_the_colour_of_a_bin_is_what_took_most_of_it():
    copies = [
        row | {"start_ns": row["start_ns"] + 30 * MS * number}
        for number in range(600)
        for row in part_rows(0, 1)
    ]
    run = traced_run(events=EVENTS.frame(copies))
    # Bins are 10 ms, from the begin of the first part on: data and forward lie in the first.
    window = (0, 18_000 * MS)
    names = [
        CATEGORIES[(int(code) - 1) // SHADES] if code else ""
        for code in codes(data_of(run, window=window, pixels=1_800))[0]
    ]
    assert names[:3] == ["forward", "backward", ""]
    hidden = codes(data_of(run, window=window, pixels=1_800, hidden=frozenset({"forward"})))[0]
    assert CATEGORIES[(int(hidden[0]) - 1) // SHADES] != "forward"


def test_a_hidden_activity_is_not_drawn():
    bars = data_of(traced_run(), hidden=frozenset({"negotiation", "blocked"}))["bars"]
    assert {CATEGORIES[kind] for kind in bars["kind"]}.isdisjoint({"negotiation", "blocked"})


def test_counters_follow_the_execution():
    found = data_of(traced_run(), window=(14 * MS, 18 * MS))["counters"]
    assert [one["text"] for one in found] == ["600 B", "0.5 GB/s"]
    assert found[0]["values"][200] == 600
    assert found[1]["values"][-1] is None


def test_an_arrow_leads_from_the_last_ready_rank_to_the_release_of_the_other():
    ready = [
        arrival_row(rank, 1, tensor, 8.0 + 4 * rank)
        for rank in range(2)
        for tensor in ("allreduce.fc.bias", "allreduce.fc.weight")
    ]
    (arrow,) = data_of(traced_run(arrivals=ARRIVALS.frame(ready)))["arrows"]
    # The first event of the pass is 20 ms after the first step.
    assert arrow == {
        "lane": 1,
        "from": 12 * MS,
        "to": round((34.6 + 3.2 - 20) * MS),
        "others": [0],
    }


def test_steps_are_sent_with_what_is_odd_about_them():
    rows = [
        step_row(rank, step, blocked_ns=rank * 5 * MS) for rank in range(2) for step in range(2)
    ]
    steps = data_of(traced_run(steps=STEPS.frame(rows)), window=(0, 10 * MS))["steps"]
    assert steps["number"] == [1]
    assert steps["straggler"] == [0]
    assert steps["start"] == [0]


def test_many_ranks_are_bands():
    number = 40
    run = traced_run(
        events=EVENTS.frame([row for rank in range(number) for row in part_rows(rank, 1)]),
        steps=STEPS.frame([step_row(rank, step) for rank in range(number) for step in range(2)]),
    )
    (bands,) = data_of(run)["bands"]
    assert bands["row"] == 0
    assert [len(one) for one in bands["quantiles"]] == [len(bands["start"])] * 5
    assert bands["quantiles"][2][0] == 16 * MS


def test_no_event_is_an_empty_view():
    data = data_of(traced_run(events=EVENTS.empty()), window=(0, MS))
    assert data["caption"].startswith("0 events")
    assert data["bars"]["id"] == []


def notes_of(run):
    lanes = pass_lanes(run, PASS_ID)
    return lanes, lane_notes(lanes, timeline_rows(lanes, RowChoice())[0], run.segments)


def test_lanes_say_why_they_are_empty():
    # Steps 0 and 1 begin at 0 and 20 ms; Horovod's events at 28 ms.
    _, notes = notes_of(traced_run())
    assert [note["text"] for note in notes] == [
        "recording starts in step 1",
        "recording ends before the segment",
    ]
    assert notes[0]["lane"] == 2
    lanes, notes = notes_of(traced_run(events=EVENTS.frame(part_rows(0, 1))))
    assert notes[0]["text"] == "No Horovod timeline in this pass (trace); trace passes hold one."
    assert segment_spans(lanes)[0]["name"] == SEGMENT_ID


@pytest.mark.heavy
@pytest.mark.parametrize("size", [1, 10**6])
def test_the_answer_is_bounded(size):
    run = traced_run(events=EVENTS.frame(repeated(300)))
    assert codes(data_of(run, pixels=size)).shape[1] <= 2_000


def test_horovods_instants_are_marks():
    marks = data_of(traced_run())["marks"]
    assert "CYCLE_START" in marks["name"]
    cycle = marks["name"].index("CYCLE_START")
    assert marks["time"][cycle] == round(14.55 * MS)
