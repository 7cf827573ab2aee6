"""Horovod's own timeline in a Chrome trace: executions, counters, arrows, and negotiation."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.derived_spans import lanes_without_overlap
from hvdprof.report.chrome.trace_selection import (
    EventKind,
    Lane,
    TracedPass,
    TraceEvent,
    in_order_of_time,
    rows_of,
)
from hvdprof.report.json_values import JsonObject

_ENTRY = ["segment", "fusion_id"]
_MOST_TENSORS = 200

_NEGOTIATION, _EXECUTION, _ACTIVITY = "olive", "generic_work", "rail_load"
"""Names of colours of chrome://tracing."""

_STEP = ["segment", "step"]
_ARROW = "last arrival"
_BYTES, _BUSBW, _SAMPLES = "bytes in flight", "busbw (GB/s)", "samples per second"


@dataclass(slots=True)
class _Execution:
    lane: Lane
    tensors: list[str] = field(default_factory=list)
    size_bytes: int = 0


def horovod_lanes(
    traced: TracedPass, process: int, end_ns: int, phase_lanes: dict[int, Lane]
) -> tuple[list[Lane], Iterator[TraceEvent]]:
    """The lanes of Horovod's timeline, and their events in order of time.

    1. Executions: one interval for each ``fusion_id``, its activities nested, with all tensors
       and the sum of their bytes. The times are those of its first tensor; Horovod stamps the
       others within microseconds.
    2. Negotiation: one interval for tensors that are negotiated at the same time, which lists
       them; inside of it those that nest, each from the first rank that was ready to the last.
    3. The marks: which rank was ready when, cycles.
    4. Arrows from the gradient that was ready last to the execution.

    Args:
        traced: The recordings.
        process: Number of the process of these lanes.
        end_ns: Where an interval ends whose end is not in the file.
        phase_lanes: The lane of the phases of each rank, where arrows begin.
    """
    events = traced.events[traced.events["source"] == "timeline"]
    events = events.sort_values(["start_ns", "dur_ns"], ascending=[True, False], kind="stable")
    unfinished = events["dur_ns"] < 0
    events = events.assign(
        unfinished=unfinished,
        dur_ns=events["dur_ns"].where(~unfinished, end_ns - events["start_ns"]),
    )
    phase = events["phase"].astype(str)
    executions = events[phase == "operation"]
    negotiations = events[phase == "negotiation"]
    marks = events[phase == "mark"]
    first_tensors = executions.drop_duplicates(_ENTRY)
    execution_lanes, execution_of = _lanes(first_tensors, process, 1, "executions")
    after = 2 + len(execution_lanes)
    negotiation_lane = Lane(process, after - 1, "negotiation")
    cycle_lane, ready_lane = Lane(process, after, "cycles"), Lane(process, after + 1, "ranks ready")
    is_cycle = marks["tensor"].astype(str) == ""
    sources = [
        _executions(events[phase.isin(["operation", "activity"])], execution_of),
        _negotiations(negotiations, negotiation_lane),
        arrows(traced, phase_lanes, first_tensors, execution_of),
        _cycles(marks[is_cycle], cycle_lane),
        _ranks_ready(marks[~is_cycle], ready_lane),
    ]
    lanes = [*execution_lanes, *[negotiation_lane] * (not negotiations.empty)]
    lanes += [cycle_lane] * bool(is_cycle.any()) + [ready_lane] * bool((~is_cycle).any())
    return lanes, in_order_of_time(sources)


def _lanes(
    intervals: pd.DataFrame, process: int, first_thread: int, name: str
) -> tuple[list[Lane], list[Lane]]:
    """The lanes that the intervals need, and the lane of each interval."""
    starts = intervals["start_ns"].to_numpy(dtype=np.int64)
    numbers = lanes_without_overlap(starts, starts + intervals["dur_ns"].to_numpy(dtype=np.int64))
    count = int(numbers.max()) + 1 if len(numbers) else 0
    labels = [name if number == 0 else f"{name} {number + 1}" for number in range(count)]
    lanes = [Lane(process, first_thread + number, labels[number]) for number in range(count)]
    return lanes, [lanes[number] for number in numbers]


def _executions(events: pd.DataFrame, lane_of: list[Lane]) -> Iterator[TraceEvent]:
    operations = events[events["phase"].astype(str) == "operation"]
    executions: dict[tuple[str, int], _Execution] = {}
    lanes = iter(lane_of)
    for row in rows_of(operations):
        key = (row.segment, row.fusion_id)
        if key not in executions:
            executions[key] = _Execution(next(lanes))
        executions[key].tensors.append(row.tensor)
        if not pd.isna(row.size_bytes):
            executions[key].size_bytes += int(row.size_bytes)
    for row in rows_of(events):
        execution = executions.get((row.segment, row.fusion_id))
        if execution is not None and row.tensor == execution.tensors[0]:
            args = _execution_args(row, execution) if row.phase == "operation" else {}
            colour = _EXECUTION if row.phase == "operation" else _ACTIVITY
            yield _interval(row, execution.lane, str(row.activity), args, colour)


def _execution_args(row: Any, execution: _Execution) -> JsonObject:
    args: JsonObject = {
        "step": int(row.step),
        "fusion_id": int(row.fusion_id),
        "num_tensors": len(execution.tensors),
        "tensors": list(execution.tensors),
    }
    return args | ({"size_bytes": execution.size_bytes} if execution.size_bytes else {})


def _negotiations(events: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    """Rounds of negotiations that overlap, each with those inside of it that nest."""
    end = (events["start_ns"] + events["dur_ns"]).to_numpy(np.int64)
    start = events["start_ns"].to_numpy(np.int64)
    begins = np.ones(len(events), bool)
    begins[1:] = start[1:] >= np.maximum.accumulate(end)[:-1]
    for _, of_round in events.groupby(np.cumsum(begins)):
        if len(of_round) > 1:
            yield _round(of_round, lane)
        ends: list[int] = []
        for row in rows_of(of_round):
            while ends and ends[-1] <= row.start_ns:
                ends.pop()
            if ends and row.start_ns + row.dur_ns > ends[-1]:
                continue
            ends.append(row.start_ns + row.dur_ns)
            args: JsonObject = {"step": int(row.step), "activity": str(row.activity)}
            yield _interval(row, lane, str(row.tensor), args, _NEGOTIATION)


def _round(rows: pd.DataFrame, lane: Lane) -> TraceEvent:
    """From the first start to the last end, with the name, begin and length of each tensor."""
    start_ns = int(rows["start_ns"].min())
    tensors = [
        f"{row.tensor}: +{units.milliseconds(int(row.start_ns) - start_ns)}, "
        f"{units.milliseconds(int(row.dur_ns))} long"
        for row in rows_of(rows.head(_MOST_TENSORS))
    ]
    length_ns = int((rows["start_ns"] + rows["dur_ns"]).max()) - start_ns
    name = f"negotiation of {units.counted(len(rows), 'tensor')}"
    args: JsonObject = {"step": int(rows["step"].iloc[0]), "tensors": list(tensors)}
    return TraceEvent(lane, name, start_ns, length_ns, args, _NEGOTIATION)


def _interval(row: Any, lane: Lane, name: str, args: JsonObject, colour: str) -> TraceEvent:
    if row.unfinished:
        name, args = f"{name} (end not in the file)", args | {"unfinished": True}
    return TraceEvent(lane, name, int(row.start_ns), int(row.dur_ns), args, colour)


def _cycles(marks: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(marks):
        yield TraceEvent(lane, str(row.activity), int(row.start_ns), None)


def _ranks_ready(marks: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(marks):
        yield TraceEvent(
            lane,
            f"rank {row.activity}",
            int(row.start_ns),
            None,
            {"tensor": str(row.tensor), "step": int(row.step)},
        )


def counters(traced: TracedPass, process: int) -> tuple[list[Lane], Iterator[TraceEvent]]:
    """Bytes in flight and bus bandwidth of the executions, and samples per second of the steps.

    Each value holds until the next; nothing of what the run does not know.
    """
    found = traced.collectives
    executions = found[found["dur_ns"].notna().to_numpy(bool)]
    # Samples of all ranks divided by the length of each step, per second.
    steps = traced.steps
    ends = steps.assign(end_ns=steps["start_ns"] + steps["dur_ns"]).groupby(_STEP, observed=True)
    of_job = ends.agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), samples=("samples", "sum")
    )
    length = (of_job["end_ns"] - of_job["start_ns"]).clip(lower=1)
    known = of_job.assign(dur_ns=length, rate=of_job["samples"] / length * 1e9)
    events = [
        *_changes(executions, "size_bytes", process, 1, _BYTES),
        *_changes(executions, "busbw_gb_per_s", process, 2, _BUSBW),
        *_changes(known[(known["samples"] > 0).to_numpy(bool)], "rate", process, 3, _SAMPLES),
    ]
    events.sort(key=lambda event: event.start_ns)
    return list(dict.fromkeys(event.lane for event in events)), iter(events)


def _changes(
    intervals: pd.DataFrame, column: str, process: int, thread: int, name: str
) -> Iterator[TraceEvent]:
    """The sum of a column over the intervals that are on, at each time at which it changes."""
    known = intervals[intervals[column].notna().to_numpy(bool)]
    value = known[column].to_numpy(np.float64)
    start = known["start_ns"].to_numpy(np.int64)
    times = np.concatenate([start, start + known["dur_ns"].to_numpy(np.int64)])
    at, place = np.unique(times, return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, place, np.concatenate([value, -value]))
    running = np.cumsum(change)
    # What is left of sums and differences of floats is nothing.
    running[np.abs(running) < 1e-9 * np.abs(value).max(initial=0)] = 0
    lane = Lane(process, thread, name)
    for time, total in zip(at.tolist(), running.tolist(), strict=True):
        args = {name: float(f"{total:.6g}")}
        yield TraceEvent(lane, name, time, None, args, kind=EventKind.COUNTER, category="counter")


def arrows(
    traced: TracedPass, phase_lanes: dict[int, Lane], executions: pd.DataFrame, lanes: list[Lane]
) -> Iterator[TraceEvent]:
    """From the last ready gradient of each execution to its start, where two ranks recorded any.

    Args:
        traced: The recordings.
        phase_lanes: The lane of the phases of each rank.
        executions: Rows of EVENTS, one for each execution.
        lanes: The lane of each.
    """
    names = {"segment": str, "tensor": str}
    operations = traced.events[(traced.events["phase"] == "operation").to_numpy(bool)]
    tensors = operations[[*_STEP, "tensor", "fusion_id"]].astype(names).drop_duplicates()
    ready = traced.arrivals[[*_STEP, "tensor", "rank", "ready_ns"]].astype(names)
    joined = tensors.merge(ready, on=[*_STEP, "tensor"]).sort_values("ready_ns", kind="stable")
    grouped = joined.groupby(_ENTRY)
    several = grouped["rank"].transform("nunique") > 1
    latest = joined[several.to_numpy(bool)].groupby(_ENTRY).tail(1)
    last = {
        (str(row.segment), int(row.fusion_id)): (int(row.rank), int(row.ready_ns))
        for row in rows_of(latest)
    }
    found: list[TraceEvent] = []
    pairs = zip(rows_of(executions), lanes, strict=True)
    for number, (row, lane) in enumerate(pairs):
        rank, ready_ns = last.get((str(row.segment), int(row.fusion_id)), (-1, 0))
        start_ns, end_ns = int(row.start_ns), int(row.start_ns + row.dur_ns)
        # Clocks differ by their error: an arrow never points back.
        if rank in phase_lanes and ready_ns <= end_ns:
            name = f"rank {rank} is ready last"
            for where, time, kind in (
                (phase_lanes[rank], ready_ns, EventKind.FLOW_START),
                (lane, max(start_ns, ready_ns), EventKind.FLOW_END),
            ):
                found.append(
                    TraceEvent(where, name, time, None, kind=kind, flow=number, category=_ARROW)
                )
    found.sort(key=lambda event: event.start_ns)
    return iter(found)
