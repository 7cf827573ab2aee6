"""Counters and arrows of a Chrome trace: what executions carry, and which rank they waited for.

Tested in ``tests/report/chrome/test_chrome_trace.py``.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof.report.chrome.trace_event import EventKind, Lane, TraceEvent, rows_of
from hvdprof.report.chrome.trace_selection import TracedPass

_ENTRY = ["segment", "fusion_id"]
_STEP = ["segment", "step"]
_ARROW = "last arrival"
_BYTES, _BUSBW, _SAMPLES = "bytes in flight", "busbw (GB/s)", "samples per second"


def counters(traced: TracedPass, process: int) -> tuple[list[Lane], Iterator[TraceEvent]]:
    """Bytes in flight and bus bandwidth of the executions, and samples per second of the steps.

    Each value holds until the next; nothing of what the run does not know.

    Args:
        traced: The recordings.
        process: Number of the process of the counters.
    """
    found = traced.collectives
    executions = found[found["dur_ns"].notna().to_numpy(bool)]
    events = [
        *_changes(executions, "size_bytes", process, 1, _BYTES),
        *_changes(executions, "busbw_gb_per_s", process, 2, _BUSBW),
        *_changes(_rates(traced.steps), "rate", process, 3, _SAMPLES),
    ]
    events.sort(key=lambda event: event.start_ns)
    return list(dict.fromkeys(event.lane for event in events)), iter(events)


def _rates(steps: pd.DataFrame) -> pd.DataFrame:
    """Samples of all ranks divided by the length of each step, per second."""
    ends = steps.assign(end_ns=steps["start_ns"] + steps["dur_ns"]).groupby(_STEP, observed=True)
    of_job = ends.agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), samples=("samples", "sum")
    )
    length = (of_job["end_ns"] - of_job["start_ns"]).clip(lower=1)
    known = of_job.assign(dur_ns=length, rate=of_job["samples"] / length * 1e9)
    return known[(known["samples"] > 0).to_numpy(bool)]


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
