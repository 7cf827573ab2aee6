"""The lanes of a rank in a Chrome trace: its steps, phases, gradients and marks."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.derived_spans import EVALUATION, NAMES, OUTSIDE, derived_spans
from hvdprof.model.cell_key import setting_name
from hvdprof.report.chrome.trace_selection import (
    Lane,
    TracedPass,
    TraceEvent,
    in_order_of_time,
    rows_of,
)
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE

# The nearest to hvdprof.figures.palette among the names that chrome://tracing knows; Perfetto
# chooses its own.
_COLOURS = {
    "data": "yellow",
    "forward": "thread_state_runnable",
    "backward": "rail_response",
    "before_update": "thread_state_runnable",
    "optimizer": "thread_state_running",
    OUTSIDE: "grey",
    EVALUATION: "thread_state_sleeping",
    "blocked": "rail_animation",
}
_BLOCKED = "blocked in synchronize()"
_BLOCKED_UNDER = {
    DDP_ENGINE: "blocked at the end of backward()",
    FSDP_ENGINE: "blocked in a collective",
    COLLECTIVES_ENGINE: "blocked in a collective",
}


def derived_rows(traced: TracedPass, ranks: list[int]) -> pd.DataFrame:
    """Rank, name, start and length of what lies outside all phases, and of the last evaluations."""
    events = traced.events
    parts = events[((events["source"] == "recorder") & (events["phase"] == "part")).to_numpy(bool)]
    last = traced.evaluations[traced.evaluations["after_last"].to_numpy(bool)]
    start = parts["start_ns"].to_numpy(np.int64)
    found = derived_spans(
        (traced.steps, last),
        np.array(ranks, dtype=np.int64),
        np.searchsorted(ranks, parts["rank"]),
        start,
        start + parts["dur_ns"].to_numpy(np.int64).clip(min=0),
    )
    return pd.DataFrame(
        {
            "rank": np.array(ranks, dtype=np.int64)[found.lane],
            "activity": list(found.category),
            "start_ns": found.start_ns,
            "dur_ns": found.end_ns - found.start_ns,
        }
    )


def rank_lanes(
    traced: TracedPass, rank: int, derived: pd.DataFrame
) -> tuple[list[Lane], Iterator[TraceEvent]]:
    """The lanes of a rank that are not empty, and their events in order of time."""
    steps = _of_rank(traced.steps, rank).sort_values("start_ns")
    arrivals = _of_rank(traced.arrivals, rank).sort_values("ready_ns")
    recorded = traced.events[traced.events["source"] == "recorder"]
    recorded = _of_rank(recorded, rank).sort_values("start_ns")
    marks, parts = (recorded[recorded["phase"] == phase] for phase in ("mark", "part"))
    step_lane, phase_lane = Lane(rank, 1, "steps"), Lane(rank, 2, "phases")
    ready_lane, mark_lane = Lane(rank, 3, "gradients ready"), Lane(rank, 4, "marks")
    lanes = [step_lane, phase_lane]
    lanes += [ready_lane] * (not arrivals.empty) + [mark_lane] * (not marks.empty)
    sources = [
        _segments(steps, traced.segments, step_lane),
        _steps(steps, step_lane),
        _phases(parts, phase_lane, _blocked_label(traced)),
        _outside(derived, phase_lane),
        _ready(arrivals, ready_lane),
        _marks(marks, mark_lane),
    ]
    return lanes, in_order_of_time(sources)


def _of_rank(table: pd.DataFrame, rank: int) -> pd.DataFrame:
    return table[table["rank"] == rank]


def _segments(steps: pd.DataFrame, segments: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    known = {str(row.segment): row for row in rows_of(segments)}
    spans = steps.assign(end_ns=steps["start_ns"] + steps["dur_ns"])
    spans = spans.groupby("segment", observed=True).agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max")
    )
    for span in rows_of(spans.sort_values("start_ns")):
        row = known[str(span.Index)]
        yield TraceEvent(
            lane,
            f"{row.model} {setting_name(row.engine, row.compression, row.reduction)}",
            int(span.start_ns),
            int(span.end_ns - span.start_ns),
            {
                "segment": str(row.segment),
                "np": int(row.size),
                "batch_size": int(row.batch_size),
                "num_tensors": int(row.num_tensors),
                "gradient_bytes": int(row.gradient_bytes),
                "sent_bytes": int(row.sent_bytes),
            },
        )


def _steps(steps: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(steps):
        args = {"step": int(row.step), "samples": int(row.samples), "loss": float(row.loss)}
        args["clock_error_us"] = row.clock_error_ns / 1000
        name = f"step {row.step} (warm-up)" if row.warmup else f"step {row.step}"
        colour = "white" if row.warmup else "good"
        yield TraceEvent(lane, name, int(row.start_ns), int(row.dur_ns), args, colour)


def _blocked_label(traced: TracedPass) -> str:
    engines = set(traced.segments["engine"].astype(str))
    return next((label for engine, label in _BLOCKED_UNDER.items() if engine in engines), _BLOCKED)


def _phases(parts: pd.DataFrame, lane: Lane, blocked: str) -> Iterator[TraceEvent]:
    # Of two that start together the longer one holds the other: blocked lies in the optimizer's.
    for row in rows_of(parts.sort_values(["start_ns", "dur_ns"], ascending=[True, False])):
        name = str(row.activity)
        label = blocked if name == "blocked" else name
        colour = _COLOURS.get(name, "")
        args = {"step": int(row.step)}
        yield TraceEvent(lane, label, int(row.start_ns), int(row.dur_ns), args, colour)


def _outside(derived: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(derived.sort_values("start_ns")):
        name = str(row.activity)
        start_ns, dur_ns = int(row.start_ns), int(row.dur_ns)
        colour = _COLOURS[name]
        yield TraceEvent(lane, NAMES[name], start_ns, dur_ns, {}, colour, category=name)


def _ready(arrivals: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(arrivals):
        yield TraceEvent(lane, str(row.tensor), int(row.ready_ns), None, {"step": int(row.step)})


def _marks(marks: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(marks):
        yield TraceEvent(lane, str(row.activity), int(row.start_ns), None)
