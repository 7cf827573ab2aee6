"""One pass of a run as a Chrome trace: every rank and Horovod's own timeline on one clock."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.report.chrome.trace_horovod_lanes import counters, horovod_lanes
from hvdprof.report.chrome.trace_rank_lanes import derived_rows, rank_lanes
from hvdprof.report.chrome.trace_selection import (
    EventKind,
    Lane,
    TracedPass,
    TraceEvent,
    in_order_of_time,
    select_pass,
)
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import JsonObject
from hvdprof.rundir.plan import DDP_ENGINE


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
    """JSON object format of the Trace Event Format; events are written one by one."""

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
        traced = select_pass(
            analysis.run, self._pass_id, self._model, analysis.table(COLLECTIVES.name)
        )
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
    derived = derived_rows(traced, ranks)
    parts = [rank_lanes(traced, rank, derived[derived["rank"] == rank]) for rank in ranks]
    if (traced.events["source"] == "timeline").any():
        under_ddp = (traced.segments["engine"] == DDP_ENGINE).any()
        what = "DDP buckets" if under_ddp else "Horovod timeline"
        processes[traced.size] = f"{what} (rank 0's view)"
        phases = {lane.process: lane for lanes, _ in parts for lane in lanes if lane.thread == 2}
        parts.append(horovod_lanes(traced, traced.size, end_ns, phases))
    counted = counters(traced, traced.size + 1)
    if counted[0]:
        processes[traced.size + 1] = "job"
        parts.append(counted)
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
    return _compact(
        {"ph": "M", "cat": "__metadata", "name": name, "pid": process, "tid": thread, "args": args}
    )


def _record(event: TraceEvent, origin_ns: int) -> str:
    kind = '"ph":"i","s":"t"'
    if event.kind is not EventKind.INTERVAL:
        kind = f'"ph":"{event.kind}"'
    elif event.dur_ns is not None:
        kind = f'"ph":"X","dur":{_microseconds(event.dur_ns)}'
    if event.kind in (EventKind.FLOW_START, EventKind.FLOW_END):
        kind += f',"id":{event.flow}'
        # An arrow ends at the interval that begins there, not at the next one.
        kind += ',"bp":"e"' if event.kind is EventKind.FLOW_END else ""
    category = event.category or _category(event.lane)
    text = (
        f'{{{kind},"cat":{json.dumps(category)},"name":{json.dumps(event.name)},"pid":{event.lane.process},'
        f'"tid":{event.lane.thread},"ts":{_microseconds(event.start_ns - origin_ns)}'
    )
    if event.colour:
        text += f',"cname":"{event.colour}"'
    args = {name: value for name, value in event.args.items() if not _is_nan(value)}
    return f'{text},"args":{_compact(args)}}}' if args else f"{text}}}"


def _category(lane: Lane) -> str:
    """The name of a lane without the number of a further one, as in ``executions 2``."""
    return lane.name.rstrip(" ()0123456789") or lane.name


def _microseconds(duration_ns: int) -> str:
    # The format counts microseconds; three decimals keep every nanosecond, a float would not.
    return f"{duration_ns // 1000}.{duration_ns % 1000:03d}"


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
