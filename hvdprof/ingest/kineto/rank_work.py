"""What one rank did in each step of its trace: parts of the step, and when it waited."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged
from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.trace_clocks import ALL_WAIT
from hvdprof.ingest.kineto.trace_events import Annotation
from hvdprof.ingest.kineto.trace_file import FSDP2_GATHERS, FSDP2_REDUCES, TraceFile
from hvdprof.ingest.kineto.trace_phases import (
    HostPhases,
    Piece,
    annotations_within,
    host_phases,
    next_start_ns,
    on_gpu,
    waits_on_cpu,
    waits_on_gpu,
    with_copies_of_buckets,
)
from hvdprof.ingest.kineto.trace_set import RankTrace
from hvdprof.ingest.kineto.trace_steps import TraceStep
from hvdprof.model.arrays import Int64s
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.rundir.recording.recorder_format import (
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


BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class WorkedStep:
    """One step: its times in ns of the trace's clock, the length of its parts, and its pieces.

    The rows of ``blocked`` are starts and ends of when it waited: on GPUs hundreds. ``waits`` are
    those of FSDP2, which waits several times.
    """

    number: int
    start_ns: int
    end_ns: int
    parts: Mapping[str, int]
    pieces: tuple[Piece, ...]
    blocked: Int64s
    waits: tuple[SyncWait, ...] = ()

    @property
    def released_ns(self) -> int:
        """The end of its last wait; its own end without one."""
        return int(self.blocked[1].max()) if self.blocked.size else self.end_ns


def worked_steps(one: RankTrace) -> list[WorkedStep]:
    """The steps of a rank with phases and blocked time; the parts of each sum to its length."""
    calls_of: dict[int, list[CollectiveCall]] = {}
    for call, number in zip(one.calls, one.step_of, strict=True):
        calls_of.setdefault(number, []).append(call)
    phases_of = [host_phases(one.file, step) for step in one.steps.steps]
    starts, ends = (np.empty(0, np.int64),) * 2
    if one.file.on_gpu:
        backward = [piece for phases in phases_of for piece in phases.named("backward")]
        starts, ends = waits_on_gpu(one.file, backward, one.clock)
    hides_waits, is_of_fsdp2 = one.hides_waits, one.file.is_of_fsdp2
    found = []
    for step, phases in zip(one.steps.steps, phases_of, strict=True):
        sharded: tuple[SyncWait, ...] = ()
        if one.file.on_gpu:
            pieces = on_gpu(with_copies_of_buckets(one.file, step, phases), one.clock)
            low, high = np.searchsorted(ends, step.start_ns), np.searchsorted(starts, step.end_ns)
            waits = np.stack([starts[low:high], ends[low:high]])
        elif hides_waits:
            pieces, waits = list(phases.pieces), np.empty((2, 0), np.int64)
        elif is_of_fsdp2:
            calls = calls_of.get(step.number, ())
            sharded = tuple(waits_of_fsdp2(one.file, step, phases, calls))
            pairs = [(wait.start_ns, wait.end_ns) for wait in sharded]
            pieces, waits = list(phases.pieces), np.array(pairs, np.int64).reshape(-1, 2).T
        else:
            pairs = waits_on_cpu(one.file, step, phases, calls_of.get(step.number, ()))
            pieces = _with_waits(list(phases.pieces), pairs)
            waits = np.array(pairs, np.int64).reshape(-1, 2).T
        found.append(_worked(step, pieces, waits, sharded))
    return found


def _worked(
    step: TraceStep, pieces: Sequence[Piece], waits: Int64s, sharded: tuple[SyncWait, ...]
) -> WorkedStep:
    """A step with what lies in it of pieces and of waits, whose rows are starts and ends."""
    first, last = step.start_ns, step.end_ns
    inside = tuple(
        (name, max(start, first), min(end, last))
        for name, start, end in pieces
        if start < end and start < last and end > first
    )
    is_inside = (waits[0] < waits[1]) & (waits[0] < last) & (waits[1] > first)
    blocked = np.clip(waits[:, is_inside], first, last)
    lengths = dict.fromkeys(RECORDED_PARTS, 0)
    for name, start, end in inside:
        # No time counts twice.
        waited = np.minimum(blocked[1], end) - np.maximum(blocked[0], start)
        lengths[name] += end - start - int(waited[waited > 0].sum())
    lengths[BLOCKED] = int((blocked[1] - blocked[0]).sum())
    lengths["outside"] = last - first - sum(lengths.values())
    return WorkedStep(step.number, first, last, lengths, inside, blocked, sharded)


def allocation_share(one: RankTrace) -> float:
    """The share of the steps, on the host, in cudaMalloc and cudaFree; 0 without steps."""
    steps = np.array(
        [(step.host_start_ns, step.host_end_ns) for step in one.steps.steps], dtype=np.int64
    ).reshape(-1, 2)
    total = int((steps[:, 1] - steps[:, 0]).sum())
    inside = covered_ns(steps[:, 0], steps[:, 1], merged(*one.file.allocations))
    return int(inside.sum()) / total if total else 0.0


def _with_waits(pieces: list[Piece], waits: list[tuple[int, int]]) -> list[Piece]:
    """Backward with the wait at its end, as the recorder has it: DDP waits within backward()."""
    ends = dict(waits)
    return [
        (name, start, ends.get(end, end) if name == "backward" else end)
        for name, start, end in pieces
    ]
