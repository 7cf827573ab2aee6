"""What other tools recorded as Chrome traces: collectives of all ranks, exports of Nsight Systems.

A lane holds the calls of a rank in one process group. Where several are in progress at once, the
group has several lanes.
"""

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hvdprof.errors import UsageError
from hvdprof.figures.timeline.derived_spans import lanes_without_overlap
from hvdprof.model.run import Run
from hvdprof.model.tables.nsys_tables import NSYS_GPUS, NsysEvents, NsysKind
from hvdprof.model.tables.rank_collective_tables import (
    INSPECTOR_COLLECTIVES,
    NO_MATCH,
    RANK_COLLECTIVES,
    UNBOUNDED_CLOCK_NS,
)
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.timeline_tables import TIMELINES
from hvdprof.report.chrome.chrome_trace import TraceContent
from hvdprof.report.chrome.trace_selection import Lane, TraceEvent, in_order_of_time, rows_of
from hvdprof.report.json_values import JsonObject

COMPLETED = "completed"
_UNMATCHED_COLOUR, _OPEN_COLOUR = "bad", "terrible"

_COLOURS = {NsysKind.NCCL_KERNEL: "rail_animation"}
_NUMBERS_OF_ONE = 100


def collective_content(run: Run, job: str | None = None) -> TraceContent:
    """What ``chrome_trace.write_trace`` writes; times are ns on the clock of the job's rank 0.

    Args:
        run: Standalone files.
        job: Name of the job, as ``rank_collectives`` has it; the one with the most calls if None.

    Raises:
        UsageError: The files hold no collective of a rank, or no job of that name.
    """
    calls = _calls_of(run, job)
    starts = calls["submitted_ns"].fillna(calls["arrival_ns"]).astype("int64")
    ends = calls["end_ns"].astype("Int64")
    last_ns = int(max(starts.max(), ends.max() if ends.notna().any() else 0))
    is_open = ends.isna() & (calls["state"].astype(str) != COMPLETED)
    # GB/s of each call, as logs of the Inspector state it; NaN where none does.
    keys = ["group", "seq", "start_ns", "end_ns"]
    logs = run.table(INSPECTOR_COLLECTIVES.name).rename(columns={"communicator": "group"})
    known = logs.astype({"group": str}).drop_duplicates(keys).set_index(keys)["busbw_gb_s"]
    of_calls = pd.MultiIndex.from_frame(calls.astype({"group": str})[keys])
    calls = calls.assign(
        begin_ns=starts,
        finish_ns=ends.where(~is_open, last_ns),
        is_open=is_open,
        busbw_gb_s=known.reindex(of_calls).to_numpy(np.float64),
    ).sort_values("begin_ns", kind="stable")
    lanes: list[Lane] = []
    sources: list[list[TraceEvent]] = []
    ranks = sorted({int(rank) for rank in calls["rank"]})
    for rank in ranks:
        own = calls[(calls["rank"] == rank).to_numpy()]
        for group, of_group in own.groupby("group", sort=True, observed=True):
            made = _lanes(
                rank, len([lane for lane in lanes if lane.process == rank]), group, of_group
            )
            lanes += made[0]
            sources.append(list(_events(*made, of_group)))
    errors, hosts = calls["clock_error_ns"], _hosts(run, calls)
    bounded = errors[errors < UNBOUNDED_CLOCK_NS]
    return TraceContent(
        processes={rank: f"rank {rank}{hosts.get(rank, '')}" for rank in ranks},
        lanes=lanes,
        events=in_order_of_time(sources),
        origin_ns=int(calls["begin_ns"].min()),
        about={
            "job": str(calls["pass_id"].iloc[0]),
            "recorder": ", ".join(sorted(set(calls["source"].astype(str)))),
            "np": len(ranks),
            "clock": f"clock of rank {ranks[0]}",
            "origin_ns": int(calls["begin_ns"].min()),
            "largest_clock_error_us": float(bounded.max()) / 1000
            if len(bounded) == len(errors)
            else None,
        },
    )


def _hosts(run: Run, calls: pd.DataFrame) -> dict[int, str]:
    """`` (HOST)`` by rank, as logs of the Inspector state it."""
    logs = run.table(INSPECTOR_COLLECTIVES.name)
    logs = logs[logs["communicator"].isin(calls["group"]).to_numpy()]
    whole = logs[(logs["num_ranks"] == logs["num_ranks"].max()).fillna(value=False)]
    known = whole[["rank", "host"]].dropna().drop_duplicates("rank").itertuples(index=False)
    return {int(rank): f" ({host})" for rank, host in known if host}


def _instead(run: Run) -> str:
    """The command that shows what the files hold."""
    name = shlex.quote(str(run.folder))
    if not run.table(NSYS_GPUS.name).empty:
        return "Name the export of Nsight Systems alone: hvdprof export REPORT.sqlite -o trace.json"
    if not (run.table(TIMELINES.name).empty and run.table(STEPS.name).empty):
        return (
            f"Make a run directory of it, and export that: hvdprof attach RUN {name}\n  "
            f"Its tables: hvdprof convert {name} -o TABLES"
        )
    return (
        "Lengths and counts without their place in time cannot be drawn. Their tables: "
        f"hvdprof convert {name} -o TABLES"
    )


def _calls_of(run: Run, job: str | None) -> pd.DataFrame:
    calls = run.table(RANK_COLLECTIVES.name)
    if calls.empty and not run.table(INSPECTOR_COLLECTIVES.name).empty:
        raise UsageError(
            f"The Inspector logs in {run.folder} hold lengths of collectives without kernel times: "
            "there is nothing to draw.",
            hint="Record with NCCL_INSPECTOR_DUMP_VERBOSE=1 on all ranks.",
        )
    if calls.empty:
        raise UsageError(
            f"{run.folder} is no run directory, and holds no collectives of ranks to export.",
            hint=_instead(run),
        )
    jobs = calls["pass_id"].astype(str)
    if job is not None and job not in set(jobs):
        known = ", ".join(sorted(set(jobs)))
        raise UsageError(f"No job {job!r} is in the files.", hint=f"--pass with one of: {known}")
    chosen = jobs.mode().iloc[0] if job is None else job
    return calls[(jobs == chosen).to_numpy()]


def _lanes(
    rank: int, first: int, group: object, calls: pd.DataFrame
) -> tuple[list[Lane], "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    """The lanes of a group on a rank, and the place of each call in them."""
    begins = calls["begin_ns"].to_numpy(np.int64)
    finishes = calls["finish_ns"].fillna(calls["begin_ns"]).to_numpy(np.int64)
    # An instant and an interval that ends with the next one's begin share a lane.
    place = lanes_without_overlap(begins, np.maximum(finishes, begins))
    name = f"group {group}" if str(group) else "group unknown"
    names = [name if not lane else f"{name} ({lane + 1})" for lane in range(int(place.max()) + 1)]
    return [Lane(rank, first + number, label) for number, label in enumerate(names)], place


def _event_name(collective: str, *, is_open: bool, is_unmatched: bool) -> str:
    # Perfetto ignores colours, so that the name alone shows them.
    marks = ["not completed"] * is_open + ["on this rank alone"] * is_unmatched
    return f"{collective} ({', '.join(marks)})" if marks else collective


def _events(
    lanes: list[Lane], place: "np.ndarray[tuple[int], np.dtype[np.int64]]", calls: pd.DataFrame
) -> Iterator[TraceEvent]:
    for row, lane in zip(rows_of(calls), place.tolist(), strict=True):
        begin = int(row.begin_ns)
        is_unmatched = row.match_id == NO_MATCH
        args: JsonObject = {
            "name": str(row.name),
            "seq": None if pd.isna(row.seq) else int(row.seq),
            "size_bytes": None if pd.isna(row.size_bytes) else int(row.size_bytes),
            "dtype": str(row.dtype),
            "state": str(row.state),
            "step": int(row.step),
            "matched": not is_unmatched,
            "busbw_gb_s": None if pd.isna(row.busbw_gb_s) else float(row.busbw_gb_s),
        }
        colour = _UNMATCHED_COLOUR if is_unmatched else ""
        yield TraceEvent(
            lane=lanes[lane],
            name=_event_name(
                str(row.collective), is_open=bool(row.is_open), is_unmatched=bool(is_unmatched)
            ),
            start_ns=begin,
            dur_ns=None if pd.isna(row.finish_ns) else max(int(row.finish_ns) - begin, 0),
            args={name: value for name, value in args.items() if value not in (None, "")},
            colour=_OPEN_COLOUR if row.is_open else colour,
        )


@dataclass(slots=True)
class _Rows:
    """The lanes that one lane of the export becomes, each with the ends of its open events."""

    process: int
    first_thread: int
    name: str
    nests: bool
    lanes: list[Lane] = field(default_factory=list)
    open_ends: list[list[int]] = field(default_factory=list)


def nsys_content(source: NsysEvents, name: str) -> TraceContent:
    """What ``chrome_trace.write_trace`` writes, once; times are ns on the clock of the export."""
    # Process 0 is the kernel's to Perfetto.
    number_of = {key: number for number, key in enumerate(source.processes, start=1)}
    gpus: dict[int, list[str]] = {}
    for lane in source.lanes:
        if lane.kind is not NsysKind.RANGE:
            gpus.setdefault(lane.process, []).append(" ".join(lane.name.split()[:2]).rstrip(":"))
    return TraceContent(
        processes={
            number_of[key]: ", ".join([*sorted(set(gpus.get(key, ()))), label])
            for key, label in source.processes.items()
        },
        lanes=[],
        events=_export_events(source, number_of),
        origin_ns=source.first_ns,
        about={
            "file": name,
            "recorder": f"Nsight Systems {source.version}".strip(),
            "clock": "clock of the export",
            "origin_ns": source.first_ns,
        },
    )


def _export_events(source: NsysEvents, number_of: dict[int, int]) -> Iterator[TraceEvent]:
    # Viewers order lanes by these numbers, so that a lane keeps some free for its further ones.
    rows = {
        lane: _Rows(number_of[lane.process], first, lane.name, lane.kind is NsysKind.RANGE)
        for first, lane in zip(itertools.count(101, _NUMBERS_OF_ONE), source.lanes, strict=False)
    }
    beyond = itertools.count(101 + _NUMBERS_OF_ONE * len(source.lanes))
    for event in source.events:
        own = rows[event.lane]
        is_open = event.end_ns is None and not event.is_mark
        end_ns = source.last_ns if event.end_ns is None else event.end_ns
        where = _place(own, event.start_ns, event.start_ns if event.is_mark else end_ns)
        if where == len(own.lanes):
            thread = own.first_thread + where if where < _NUMBERS_OF_ONE else next(beyond)
            label = own.name if where == 0 else f"{own.name} ({where + 1})"
            own.lanes.append(Lane(own.process, thread, label))
        yield TraceEvent(
            lane=own.lanes[where],
            name=f"{event.name} (end not in the file)" if is_open else event.name,
            start_ns=event.start_ns,
            dur_ns=None if event.is_mark else end_ns - event.start_ns,
            args={key: value for key, value in event.args.items() if _is_written(value)},
            colour=_COLOURS.get(event.lane.kind, ""),
        )


def _place(own: _Rows, start_ns: int, end_ns: int) -> int:
    """The first of its lanes in which an event fits; as many as there are for a new one."""
    for number, ends in enumerate(own.open_ends):
        while ends and ends[-1] <= start_ns:
            ends.pop()
        if not ends or (own.nests and end_ns <= ends[-1]):
            ends.append(end_ns)
            return number
    own.open_ends.append([end_ns])
    return len(own.open_ends) - 1


def _is_written(value: str | int | float) -> bool:
    # JSON has no infinity.
    return not isinstance(value, float) or abs(value) < float("inf")
