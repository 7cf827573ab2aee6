"""An export of Nsight Systems as a Chrome trace, written while it is read.

A process of the export is a process of the trace: NVTX ranges by thread and domain, kernels by GPU
and stream, those of NCCL apart. Ranges nest; kernels that overlap have lanes of their own.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from hvdprof.model.nsys_events import NsysEvents, NsysKind
from hvdprof.report.chrome.chrome_trace import TraceContent
from hvdprof.report.chrome.trace_event import Lane, TraceEvent

_COLOURS = {NsysKind.NCCL_KERNEL: "rail_animation"}
_NUMBERS_OF_ONE = 100


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
    """What ``chrome_trace.write_trace`` writes, once; times are ns on the clock of the export.

    Args:
        source: The open export.
        name: Its name.
    """
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
        events=_events(source, number_of),
        origin_ns=source.first_ns,
        about={
            "file": name,
            "recorder": f"Nsight Systems {source.version}".strip(),
            "clock": "clock of the export",
            "origin_ns": source.first_ns,
        },
    )


def _events(source: NsysEvents, number_of: dict[int, int]) -> Iterator[TraceEvent]:
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
