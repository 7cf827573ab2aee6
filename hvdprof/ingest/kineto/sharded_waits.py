"""When a rank of FSDP2 waited on a CPU: for parameters, for its share of gradients, for the script.

FSDP2 annotates its collectives: a rank that gathers parameters is blocked in ``FSDP::all_gather``,
or in ``FSDP::all_gather_copy_out`` where it gathered them ahead; one that reduces gradients is
blocked in ``FSDP::post_backward_reduce``.

Tested in ``tests/ingest/kineto/test_sharded_waits.py``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.released_together import ALL_WAIT
from hvdprof.ingest.kineto.trace_events import Annotation
from hvdprof.ingest.kineto.trace_file import FSDP2_GATHERS, FSDP2_REDUCES, TraceFile
from hvdprof.ingest.kineto.trace_phases import HostPhases, annotations_within, next_start_ns
from hvdprof.ingest.kineto.trace_steps import TraceStep
from hvdprof.rundir.recorder_format import (
    REDUCE_SCATTER,
    UNSHARD_BACKWARD,
    UNSHARD_FORWARD,
    USER,
)

_COPIES_OUT = "FSDP::all_gather_copy_out"


@dataclass(frozen=True, slots=True)
class SyncWait:
    """A wait with its kind as in WAITS; ns of the trace's clock, ``num_ranks`` 0 where unknown."""

    kind: str
    submitted_ns: int
    start_ns: int
    end_ns: int
    num_ranks: int


def waits_of_fsdp2(
    file: TraceFile, step: TraceStep, phases: HostPhases, calls: Sequence[CollectiveCall]
) -> list[SyncWait]:
    """The waits of one step by start, without overlap.

    Args:
        file: The trace.
        step: The step.
        phases: Its phases on the host.
        calls: The collectives submitted in it, by arrival.
    """
    annotations = list(annotations_within(file, step))
    ranges = [
        annotation
        for annotation in annotations
        if _split(annotation)[0] in (FSDP2_GATHERS, FSDP2_REDUCES)
    ]
    copies = [annotation for annotation in annotations if _split(annotation)[0] == _COPIES_OUT]
    starts = [annotation.start_ns for annotation in ranges]
    found: list[SyncWait] = []
    for call in calls:
        place = bisect_right(starts, call.arrival_ns) - 1
        around = ranges[place] if place >= 0 and call.arrival_ns <= ranges[place].end_ns else None
        interval = _waited(call, around, copies) if around else _by_script(file, step, call)
        if interval is None:
            continue
        begin, end = interval
        if found:
            begin = max(begin, found[-1].end_ns)
        kind = _kind(around, phases)
        size = call.group_size if call.collective in ALL_WAIT else None
        found.append(SyncWait(kind, call.arrival_ns, begin, max(begin, end), size or 0))
    return found


def _kind(around: Annotation | None, phases: HostPhases) -> str:
    if around is None:
        return USER
    if _split(around)[0] == FSDP2_REDUCES:
        return REDUCE_SCATTER
    is_backward = any(start <= around.start_ns <= end for start, end in phases.named("backward"))
    return UNSHARD_BACKWARD if is_backward else UNSHARD_FORWARD


def _waited(
    call: CollectiveCall, around: Annotation, copies: Sequence[Annotation]
) -> tuple[int, int] | None:
    """Start and end of the wait for a collective of FSDP2's own; None where it has none."""
    if call.end_ns is None:
        return None
    name, group = _split(around)
    if name == FSDP2_REDUCES:
        # What follows in the range copies the gradients, which is work.
        returned = max(call.end_ns, call.submitted_end_ns or call.end_ns)
        return call.arrival_ns, min(returned, around.end_ns)
    if call.end_ns <= around.end_ns:
        # Nothing follows in the range: its end is when the thread has woken up.
        return call.arrival_ns, around.end_ns
    for copy in copies:
        if copy.start_ns >= around.end_ns and _split(copy)[1] == group:
            return copy.start_ns, max(copy.start_ns, min(call.end_ns, copy.end_ns))
    return None


def _by_script(file: TraceFile, step: TraceStep, call: CollectiveCall) -> tuple[int, int] | None:
    """Start and end of the wait for a collective that the script calls; None without an end."""
    if call.end_ns is None:
        return None
    begin = call.arrival_ns if call.submitted_end_ns is None else call.submitted_end_ns
    return begin, min(call.end_ns, next_start_ns(file, begin, step.host_end_ns))


def _split(one: Annotation) -> tuple[str, str]:
    """The name of a range of FSDP2, and the group of parameters that it is of."""
    name, _, group = one.name.partition(" ")
    return name, group
