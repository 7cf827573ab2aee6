"""One pass of a run as a Chrome trace: every rank and Horovod's own timeline on one clock."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

import pandas as pd

from hvdprof.model.cell_key import setting_name
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.report.chrome.trace_event import Lane, TraceEvent, in_order_of_time, rows_of
from hvdprof.report.chrome.trace_horovod_lanes import horovod_lanes
from hvdprof.report.chrome.trace_selection import TracedPass, select_pass
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import JsonObject
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE


@dataclass(frozen=True, slots=True)
class TraceContent:
    """What is written: names of the processes by number, lanes, events in order of time.

    A lane that is not in ``lanes`` is named before its first event.
    """

    processes: dict[int, str]
    lanes: list[Lane]
    events: Iterable[TraceEvent]
    origin_ns: int
    about: JsonObject


class ChromeTraceReporter:
    """JSON object format of the Trace Event Format; events are written one by one.

    Args:
        pass_id: The pass that is shown; see ``trace_selection.select_pass``.
        model: Only the segments of this model.
    """

    name: ClassVar[Format] = Format.CHROME
    suffixes: ClassVar[tuple[str, ...]] = ("trace.json", "trace.json.gz")

    def __init__(self, pass_id: str | None = None, model: str | None = None) -> None:
        self._pass_id = pass_id
        self._model = model

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the trace.

        Raises:
            UsageError: No pass or no model of the wanted name was recorded.
            UnreadableInputError: The run holds no recorded step and no timeline.
        """
        traced = select_pass(analysis.run, self._pass_id, self._model)
        write_trace(trace_content(analysis.run, traced), stream)


def trace_content(run: Run, traced: TracedPass) -> TraceContent:
    """The lanes and events of one pass; times are ns on rank 0's clock."""
    steps = traced.steps
    timed = [table for table in (steps, traced.events) if not table.empty]
    origin_ns = min(int(table["start_ns"].min()) for table in timed)
    end_ns = max(int((table["start_ns"] + table["dur_ns"]).max()) for table in timed)
    ranks = sorted(int(rank) for rank in steps["rank"].unique())
    hosts = run.ranks[run.ranks["pass_id"] == traced.pass_id].set_index("rank")["hostname"]
    processes = {
        rank: f"rank {rank} ({hosts[rank]})" if rank in hosts.index else f"rank {rank}"
        for rank in ranks
    }
    parts = [rank_lanes(traced, rank) for rank in ranks]
    if (traced.events["source"] == "timeline").any():
        under_ddp = (traced.segments["engine"] == DDP_ENGINE).any()
        what = "DDP buckets" if under_ddp else "Horovod timeline"
        processes[traced.size] = f"{what} (rank 0's view)"
        parts.append(horovod_lanes(traced, traced.size, end_ns))
    return TraceContent(
        processes=processes,
        lanes=[lane for lanes, _ in parts for lane in lanes],
        events=in_order_of_time(events for _, events in parts),
        origin_ns=origin_ns,
        about={
            "run": run.manifest.name,
            "pass": traced.pass_id,
            "mode": traced.mode,
            "np": traced.size,
            "clock": "monotonic clock of rank 0",
            "origin_ns": origin_ns,
            "largest_clock_error_us": float(timed[0]["clock_error_ns"].max()) / 1000,
        },
    )


def write_trace(content: TraceContent, stream: IO[str]) -> None:
    """Write the content as one JSON object, an event a line."""
    stream.write('{"displayTimeUnit":"ms",\n"otherData":')
    stream.write(_compact(content.about))
    stream.write(',\n"traceEvents":[')
    separator = "\n"
    for record in _records(content):
        stream.write(separator)
        stream.write(record)
        separator = ",\n"
    stream.write("\n]}\n")


def _records(content: TraceContent) -> Iterator[str]:
    for order, (process, name) in enumerate(content.processes.items()):
        yield _metadata("process_name", process, 0, {"name": name})
        yield _metadata("process_sort_index", process, 0, {"sort_index": order})
    named = set(content.lanes)
    for lane in content.lanes:
        yield from _names_of(lane)
    for event in content.events:
        if event.lane not in named:
            named.add(event.lane)
            yield from _names_of(event.lane)
        yield _record(event, content.origin_ns)


def _names_of(lane: Lane) -> Iterator[str]:
    yield _metadata("thread_name", lane.process, lane.thread, {"name": lane.name})
    yield _metadata("thread_sort_index", lane.process, lane.thread, {"sort_index": lane.thread})


def _metadata(name: str, process: int, thread: int, args: JsonObject) -> str:
    return _compact({"ph": "M", "name": name, "pid": process, "tid": thread, "args": args})


def _record(event: TraceEvent, origin_ns: int) -> str:
    kind = '"ph":"i","s":"t"'
    if event.dur_ns is not None:
        kind = f'"ph":"X","dur":{_microseconds(event.dur_ns)}'
    text = (
        f'{{{kind},"name":{json.dumps(event.name)},"pid":{event.lane.process},'
        f'"tid":{event.lane.thread},"ts":{_microseconds(event.start_ns - origin_ns)}'
    )
    if event.colour:
        text += f',"cname":"{event.colour}"'
    args = {name: value for name, value in event.args.items() if not _is_nan(value)}
    return f'{text},"args":{_compact(args)}}}' if args else f"{text}}}"


def _microseconds(duration_ns: int) -> str:
    # The format counts microseconds; three decimals keep every nanosecond, a float would not.
    return f"{duration_ns // 1000}.{duration_ns % 1000:03d}"


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


# The nearest to hvdprof.figures.style.palette among the names that chrome://tracing knows; Perfetto
# chooses its own.
_COLOURS = {
    "data": "yellow",
    "forward": "thread_state_runnable",
    "backward": "rail_response",
    "before_update": "thread_state_runnable",
    "optimizer": "thread_state_running",
    "blocked": "rail_animation",
}
_BLOCKED = "blocked in synchronize()"
_BLOCKED_UNDER = {
    DDP_ENGINE: "blocked at the end of backward()",
    FSDP_ENGINE: "blocked in a collective",
    COLLECTIVES_ENGINE: "blocked in a collective",
}


def rank_lanes(traced: TracedPass, rank: int) -> tuple[list[Lane], Iterator[TraceEvent]]:
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
        yield TraceEvent(lane, name, int(row.start_ns), int(row.dur_ns), args)


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


def _ready(arrivals: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(arrivals):
        yield TraceEvent(lane, str(row.tensor), int(row.ready_ns), None, {"step": int(row.step)})


def _marks(marks: pd.DataFrame, lane: Lane) -> Iterator[TraceEvent]:
    for row in rows_of(marks):
        yield TraceEvent(lane, str(row.activity), int(row.start_ns), None)
