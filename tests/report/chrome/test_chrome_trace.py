import io
import json
from decimal import Decimal

import pytest

from hvdprof.api import load_run
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS
from hvdprof.model.tables.window_tables import EVALUATIONS
from hvdprof.report.chrome.chrome_trace import ChromeTraceReporter, trace_content, write_trace
from hvdprof.report.chrome.trace_selection import select_pass
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import NAN, analysis, run
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.trace_format import checked_trace, drawing, named_threads
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    SEGMENT_ID,
    START_NS,
    arrival_row,
    event_row,
    fused_events,
    part_rows,
    rank_row,
    segment_row,
    step_row,
    traced_run,
)

ONE_STEP = """\
rank 0 (node1) / steps
    0.000  +20.000  resnet18 Horovod
    0.000  +20.000    step 1
rank 0 (node1) / phases
    0.000   +1.000  data
    1.000   +1.000  outside all phases
    2.000   +5.000  forward
    7.000   +8.000  backward
   15.000   +5.000  optimizer
   15.000   +4.000    blocked in synchronize()
rank 1 (node2) / steps
    0.000  +20.000  resnet18 Horovod
    0.000  +20.000    step 1
rank 1 (node2) / phases
    0.000   +1.000  data
    1.000   +1.000  outside all phases
    2.000   +5.000  forward
    7.000   +8.000  backward
   15.000   +5.000  optimizer
   15.000   +4.000    blocked in synchronize()
Horovod timeline (rank 0's view) / executions
   14.600   +3.200  ALLREDUCE
   14.600   +0.400    MEMCPY_IN_FUSION_BUFFER
   15.000   +2.500    GLOO_ALLREDUCE
Horovod timeline (rank 0's view) / negotiation
    8.000   +6.500  negotiation of 2 tensors
    8.000   +6.500    allreduce.fc.bias
    9.000   +5.500      allreduce.fc.weight
Horovod timeline (rank 0's view) / cycles
   14.550        |  CYCLE_START
Horovod timeline (rank 0's view) / ranks ready
    8.000        |  rank 0
   14.500        |  rank 1
job / samples per second"""


def exported(recorded, **options):
    out = io.StringIO()
    ChromeTraceReporter(**options).render(analysis(run=recorded), out)
    return checked_trace(out.getvalue())


def events_named(trace, name):
    return [event for event in trace["traceEvents"] if event["name"] == name]


def one_step_run(**tables):
    steps = STEPS.frame([step_row(rank, 1) for rank in range(2)])
    return traced_run(steps=steps, arrivals=ARRIVALS.empty(), **tables)


@pytest.mark.heavy
def test_one_step_of_two_ranks_and_one_fused_allreduce():
    assert drawing(exported(one_step_run())) == ONE_STEP


@pytest.mark.heavy
def test_gradients_are_instants_on_a_lane_of_their_own():
    lane = drawing(exported(traced_run())).split("rank 0 (node1) / gradients ready\n")[1]
    assert lane.splitlines()[:2] == [
        "    8.000        |  allreduce.fc.bias",
        "    9.000        |  allreduce.fc.weight",
    ]


@pytest.mark.heavy
def test_a_fused_execution_is_drawn_once_with_all_its_tensors_and_bytes():
    (execution,) = events_named(exported(traced_run()), "ALLREDUCE")
    assert execution["args"] == {
        "step": 1,
        "fusion_id": 7,
        "num_tensors": 2,
        "tensors": ["allreduce.fc.bias", "allreduce.fc.weight"],
        "size_bytes": 600,
    }


@pytest.mark.heavy
def test_times_keep_every_nanosecond():
    steps = STEPS.frame([step_row(0, 0), step_row(0, 1, start_ns=START_NS + 123_456_789)])
    (step,) = events_named(exported(traced_run(steps=steps)), "step 1")
    assert step["ts"] == Decimal("123456.789")


def test_a_step_says_its_samples_and_loss_and_nothing_that_is_not_a_number():
    steps = STEPS.frame([step_row(0, 0, loss=NAN), step_row(0, 1)])
    trace = exported(traced_run(steps=steps))
    (first,) = events_named(trace, "step 0 (warm-up)")
    assert "loss" not in first["args"]
    (second,) = events_named(trace, "step 1")
    assert second["args"] == {"step": 1, "samples": 16, "loss": Decimal("1.5"), "clock_error_us": 0}


@pytest.mark.heavy
def test_an_interval_without_an_end_reaches_to_the_end_of_the_trace_and_says_so():
    events = EVENTS.frame([event_row("operation", "ALLREDUCE", 12.0, -1, fusion_id=3)])
    trace = exported(one_step_run(events=events))
    (open_event,) = events_named(trace, "ALLREDUCE (end not in the file)")
    assert open_event["ts"] + open_event["dur"] == 20_000
    assert open_event["args"]["unfinished"] is True


@pytest.mark.heavy
def test_executions_that_overlap_get_lanes_of_their_own():
    events = EVENTS.frame(
        [
            event_row("operation", "ALLREDUCE", 1.0, 5.0, fusion_id=1),
            event_row("operation", "BROADCAST", 2.0, 1.0, fusion_id=2, tensor="broadcast.x"),
            event_row("operation", "ALLREDUCE", 6.0, 1.0, fusion_id=3),
        ]
    )
    trace = exported(one_step_run(events=events))
    lanes = named_threads(trace)
    assert [
        lanes[event["pid"], event["tid"]].split(" / ")[1]
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["name"] in ("ALLREDUCE", "BROADCAST")
    ] == ["executions", "executions 2", "executions"]


def test_an_arrow_leads_from_the_rank_that_was_ready_last_to_the_execution():
    ready = [
        arrival_row(rank, 1, tensor, after + rank)
        for rank in range(2)
        for tensor, after in (("allreduce.fc.bias", 8.0), ("allreduce.fc.weight", 9.0))
    ]
    trace = exported(traced_run(arrivals=ARRIVALS.frame(ready)))
    begin, end = (
        next(event for event in trace["traceEvents"] if event["ph"] == kind) for kind in "sf"
    )
    lanes = named_threads(trace)
    assert lanes[begin["pid"], begin["tid"]] == "rank 1 (node2) / phases"
    assert lanes[end["pid"], end["tid"]].endswith("/ executions")
    assert begin["name"] == "rank 1 is ready last"
    assert (begin["ts"], end["ts"]) == (30_000, 34_600)
    assert end["bp"] == "e"
    alone = [row for row in ready if row["rank"] == 0]
    trace = exported(traced_run(arrivals=ARRIVALS.frame(alone)))
    assert [event for event in trace["traceEvents"] if event["ph"] in "sf"] == []


def test_counters_hold_bytes_bandwidth_and_samples():
    row = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "step": 1,
        "fusion_id": 7,
        "start_ns": START_NS + 34 * MS,
        "dur_ns": 3 * MS,
        "size_bytes": 600,
        "busbw_gb_per_s": 0.5,
    }
    recorded = traced_run()
    traced = select_pass(recorded, collectives=declared_rows(COLLECTIVES, row))
    out = io.StringIO()
    write_trace(trace_content(recorded, traced), out)
    found = {}
    for event in checked_trace(out.getvalue())["traceEvents"]:
        if event["ph"] == "C":
            found.setdefault(event["name"], []).append((event["ts"], *event["args"].values()))
    # Two ranks train on 16 samples each in 20 ms.
    assert found["samples per second"] == [(0, 1600), (20_000, 1600), (40_000, 0)]
    assert found["bytes in flight"] == [(34_000, 600), (37_000, 0)]
    assert found["busbw (GB/s)"] == [(34_000, Decimal("0.5")), (37_000, 0)]


def test_negotiations_that_do_not_nest_are_listed_in_their_round():
    rows = [
        event_row("negotiation", "NEGOTIATE_ALLREDUCE", at, 5, tensor=name)
        for at, name in ((1.0, "a"), (2.0, "b"), (9.0, "c"))
    ]
    trace = exported(one_step_run(events=EVENTS.frame(rows)))
    (of_two,) = events_named(trace, "negotiation of 2 tensors")
    assert (of_two["ts"], of_two["dur"]) == (1_000, 6_000)
    assert of_two["args"]["tensors"] == ["a: +0 ms, 5.00 ms long", "b: +1.00 ms, 5.00 ms long"]
    assert events_named(trace, "a")
    assert events_named(trace, "b") == []
    assert events_named(trace, "c")[0]["ts"] == 9_000


def test_an_evaluation_after_the_last_step_and_time_outside_phases_are_drawn():
    row = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "rank": 1,
        "step": 2,
        "after_last": True,
        "start_ns": START_NS + 40 * MS,
        "dur_ns": 6 * MS,
        "rest_ns": 1 * MS,
    }
    trace = exported(traced_run(evaluations=declared_rows(EVALUATIONS, row)))
    (evaluation,) = events_named(trace, "evaluation")
    assert (evaluation["pid"], evaluation["ts"], evaluation["dur"]) == (1, 40_000, 7_000)
    outside = events_named(trace, "outside all phases")
    assert {event["cat"] for event in outside} == {"outside"}


def test_marks_of_the_script_lie_on_the_rank():
    mark = event_row("mark", "epoch 2", 1.0, 0, source="recorder", rank=1, tensor="", collective="")
    assert "rank 1 (node2) / marks\n    1.000        |  epoch 2" in drawing(
        exported(one_step_run(events=EVENTS.frame([mark])))
    )


@pytest.mark.heavy
def test_a_name_with_quotes_and_newlines_stays_json():
    events = EVENTS.frame([event_row("negotiation", "N", 1.0, 1.0, tensor='quo"te\n\\')])
    assert events_named(exported(one_step_run(events=events)), 'quo"te\n\\')


@pytest.mark.heavy
def test_a_rank_whose_host_is_unknown_is_named_without_it():
    ranks = RANKS.frame([rank_row(1, "node2")])
    names = {
        name.split(" / ")[0] for name in named_threads(exported(traced_run(ranks=ranks))).values()
    }
    assert "rank 0" in names
    assert "rank 1 (node2)" in names


@pytest.mark.heavy
def test_the_file_says_what_it_shows():
    assert exported(traced_run())["otherData"] == {
        "run": "quick",
        "pass": PASS_ID,
        "mode": "trace",
        "np": 2,
        "clock": "monotonic clock of rank 0",
        "origin_ns": START_NS,
        "largest_clock_error_us": 0,
    }


@pytest.mark.heavy
def test_it_is_written_event_by_event():
    class CountingStream(io.StringIO):
        longest = 0

        def write(self, text):
            self.longest = max(self.longest, len(text))
            return super().write(text)

    both = [(rank, step) for rank in range(2) for step in range(500)]
    steps = STEPS.frame([step_row(*one) for one in both])
    events = EVENTS.frame([row for one in both for row in part_rows(*one)])
    out = CountingStream()
    ChromeTraceReporter().render(analysis(run=traced_run(steps=steps, events=events)), out)
    assert len(out.getvalue()) > 500_000
    assert out.longest < 1_000
    assert len(json.loads(out.getvalue())["traceEvents"]) > 6_000


def several_passes():
    """A throughput pass of 4 ranks, and trace passes of 1 and 2 ranks with two models."""
    passes = [("01-np1-trace-r1", "trace", 1), (PASS_ID, "trace", 2), ("05", "throughput", 4)]
    segments = [
        segment_row(pass_id=pass_id, mode=mode, size=size) for pass_id, mode, size in passes
    ]
    segments.append(segment_row(segment="mnist-none-average", model="mnist"))
    steps = [step_row(0, 0, pass_id=pass_id) for pass_id, _, _ in passes]
    steps.append(step_row(0, 0, segment="mnist-none-average", start_ns=START_NS + 900 * MS))
    return traced_run(
        segments=SEGMENTS.frame(segments),
        steps=STEPS.frame(steps),
        arrivals=ARRIVALS.empty(),
        events=EVENTS.frame(fused_events()),
    )


@pytest.mark.heavy
def test_without_a_wish_the_trace_pass_of_the_most_ranks_is_shown():
    trace = exported(several_passes())
    assert trace["otherData"]["pass"] == PASS_ID
    assert events_named(trace, "resnet18 Horovod")
    assert events_named(trace, "mnist Horovod")


def test_a_pass_can_be_chosen():
    assert exported(several_passes(), pass_id="05")["otherData"]["mode"] == "throughput"


def test_a_model_can_be_chosen():
    trace = exported(several_passes(), model="mnist")
    assert events_named(trace, "mnist Horovod")[0]["ts"] == 0
    assert not events_named(trace, "resnet18 Horovod")
    assert not events_named(trace, "ALLREDUCE")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pass_id": "99"}, "No pass '99' was recorded"),
        ({"model": "vgg16"}, "No model 'vgg16' was recorded"),
        ({"pass_id": "05", "model": "mnist"}, "No model 'mnist' was recorded in pass 05"),
    ],
)
def test_a_wish_that_cannot_be_met_lists_what_there_is(options, message):
    with pytest.raises(UsageError, match=message) as error:
        exported(several_passes(), **options)
    assert f"  {PASS_ID}: resnet18, mnist" in error.value.hint


def test_a_run_without_recordings_is_refused():
    with pytest.raises(UnreadableInputError, match="holds no recorded step"):
        exported(run())


@pytest.mark.heavy
def test_a_pass_of_ddp_shows_its_buckets_and_where_it_waits(tmp_path):
    segment = SegmentSpec(
        engine="ddp",
        num_warmup_batches=0,
        num_steps=1,
        parts_ms=typical_parts(12, blocked_ms=2),
        buckets=[(6.0, 2.0, [1]), (7.0, 3.0, [0])],
    )
    run = load_run(write_run(tmp_path, [PassSpec(size=2, mode="trace", segments=[segment])]))
    content = trace_content(run, select_pass(run))
    assert content.processes[2] == "DDP buckets (rank 0's view)"
    # Two buckets are under way at once, so they take two lanes.
    assert [lane.name for lane in content.lanes if lane.process == 2] == [
        "executions",
        "executions 2",
    ]
    names = [event.name for event in content.events]
    assert names.count("ALLREDUCE") == 2
    assert names.count("blocked at the end of backward()") == 2
