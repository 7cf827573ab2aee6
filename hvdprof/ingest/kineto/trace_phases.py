"""The phases of the steps of one rank's trace, and when it waited for collectives.

On CPUs a rank waits where its thread has nothing to do until a collective ends: DDP after the last
function of backward, a collective of the script's own right after its submission. On GPUs it waits
while NCCL runs and nothing else does.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.kineto.busy_intervals import merged, uncovered
from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.trace_clocks import GpuClock
from hvdprof.ingest.kineto.trace_events import Annotation
from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.ingest.kineto.trace_steps import TraceStep, unwrapped_passes
from hvdprof.model.arrays import Int64s

_PHASES = (
    ("data", re.compile(r"enumerate\(DataLoader\)#|#+ *data[ _]?load\w* *#*$", re.IGNORECASE)),
    (
        "forward",
        re.compile(
            r"DistributedDataParallel\.forward$|FSDP::root_pre_forward|"
            r"FullyShardedDataParallel\.forward$|#+ *forward *#+$",
            re.IGNORECASE,
        ),
    ),
    ("optimizer", re.compile(r"Optimizer\.step#")),
)
_FORWARD_END, _BACKWARD_END = "FSDP::post_forward", "FSDP::root_post_backward_callback"
"""FSDP2 marks the end of forward and of backward: ``root_pre_forward`` ends before forward runs."""

Piece = tuple[str, int, int]
"""Name, start and end of a part of a step, ns of the trace's clock."""


@dataclass(frozen=True, slots=True)
class HostPhases:
    """Phases of one step on the host, by start."""

    pieces: tuple[Piece, ...]

    def named(self, name: str) -> list[tuple[int, int]]:
        """Starts and ends of the pieces of a phase."""
        return [(start, end) for piece, start, end in self.pieces if piece == name]


def host_phases(file: TraceFile, step: TraceStep) -> HostPhases:
    """Data, forward, backward and optimizer of one step as the host ran them.

    Forward reaches to the backward pass that follows it, so that the loss is part of it. Backward
    is what autograd executes up to the next forward pass, update or batch, with the last reductions
    of FSDP2. The forward pass of a model without DDP or FSDP begins where its backward says.
    """
    annotations = list(annotations_within(file, step))
    named = [
        (phase, annotation.start_ns, min(annotation.end_ns, step.host_end_ns))
        for annotation in annotations
        for phase, pattern in _PHASES
        if pattern.match(annotation.name)
    ]
    outer = list(_outermost(named))
    pieces = []
    borders = [start for _, start, _ in outer] + [step.host_end_ns]
    if not outer or borders[0] > step.host_start_ns:
        borders.insert(0, step.host_start_ns)
        outer.insert(0, ("", step.host_start_ns, step.host_start_ns))
    for (phase, start, end), border in zip(outer, borders[1:], strict=True):
        passes = unwrapped_passes(file, end, border) if phase != "forward" else []
        backward = _autograd(file, end, border)
        if any(one.forward_ns is not None for one in passes):
            for one in passes:
                if one.forward_ns is not None:
                    pieces.append(("forward", one.forward_ns, one.start_ns))
                pieces.append(("backward", one.start_ns, one.end_ns))
        elif backward is not None:
            first, last = backward
            pieces.append(
                ("backward", first, max(last, _last(annotations, _BACKWARD_END, last, border)))
            )
            if phase == "forward":
                end = first
        elif phase == "forward":
            end = max(end, _last(annotations, _FORWARD_END, end, border))
        if phase and end > start:
            pieces.append((phase, start, end))
    return HostPhases(tuple(sorted(pieces, key=lambda piece: piece[1])))


def waits_on_cpu(
    file: TraceFile, step: TraceStep, phases: HostPhases, calls: Sequence[CollectiveCall]
) -> list[tuple[int, int]]:
    """When the rank waited for collectives in one step, merged.

    Args:
        file: The trace.
        step: The step.
        phases: Its phases on the host.
        calls: The collectives submitted in it.
    """
    backward = phases.named("backward")
    waits = []
    for start, end in backward:
        ends = [
            call.end_ns
            for call in calls
            if call.end_ns is not None and start <= _submitted(call) <= end
        ]
        following = next_start_ns(file, end, step.host_end_ns)
        if ends:
            waits.append((end, min(max([*ends, *_copied(file, end, following)]), following)))
    for call in calls:
        at = _submitted(call)
        if call.end_ns is None or any(start <= at <= end for start, end in backward):
            continue
        begin = call.submitted_end_ns if call.submitted_end_ns is not None else at
        waits.append((begin, min(call.end_ns, next_start_ns(file, begin, step.host_end_ns))))
    return _merged_list(waits)


def waits_on_gpu(
    file: TraceFile, backward: Sequence[tuple[int, int]], clock: GpuClock
) -> tuple[Int64s, Int64s]:
    """When the GPU communicated and did not compute, merged, over the whole trace.

    Where DDP has Gloo reduce on the host, it is from the end of backward on the GPU to the end of
    the reduction. In earlier gaps between kernels the GPU waits for launches, while no thread waits
    for the reduction; and what the GPU does later is Gloo's own copy.

    Args:
        file: The trace.
        backward: Start and end of backward on the host, by start.
        clock: When the GPU had done what the host had started.
    """
    is_hidden = file.copies_to_host and file.is_of_ddp
    timed, whole = [], []
    for call in file.calls:
        if call.start_ns is None or call.end_ns is None:
            continue
        around = bisect_right(backward, _submitted(call), key=lambda piece: piece[0]) - 1
        if is_hidden and around >= 0 and _submitted(call) <= backward[around][1]:
            done = clock.done_ns(backward[around][1])
            whole.append((max(call.start_ns, done), call.end_ns))
        else:
            timed.append((call.start_ns, call.end_ns))
    times = np.asarray(timed, dtype=np.int64).reshape(-1, 2)
    _, starts, ends = file.launches
    alone = uncovered(merged(times[:, 0], times[:, 1]), merged(starts, ends))
    waits = np.asarray(whole, dtype=np.int64).reshape(-1, 2)
    return merged(*(np.concatenate([alone[side], waits[:, side]]) for side in (0, 1)))


def with_copies_of_buckets(file: TraceFile, step: TraceStep, phases: HostPhases) -> HostPhases:
    """Phases whose backward reaches to DDP's copies of reduced buckets: they are within it."""
    pieces = []
    for name, start, end in phases.pieces:
        copied = _copied(file, end, next_start_ns(file, end, step.host_end_ns))
        pieces.append((name, start, max([end, *copied]) if name == "backward" else end))
    return HostPhases(tuple(pieces))


def on_gpu(phases: HostPhases, clock: GpuClock) -> list[Piece]:
    """Phases of the host as the GPU ran them, without overlap.

    Data counts as far as the GPU had nothing left to do when the batch came.
    """
    pieces = []
    reached = 0
    for name, start, end in phases.pieces:
        if name == "data":
            begin, until = clock.done_ns(end), clock.next_begin_ns(end)
            begin = max(begin, min(start, until))
        else:
            begin, until = clock.done_ns(start), clock.done_ns(end)
        begin = max(begin, reached)
        if until > begin:
            pieces.append((name, begin, until))
            reached = until
    return pieces


def _last(annotations: Sequence[Annotation], prefix: str, low: int, high: int) -> int:
    """The end of the last annotation of that name between two moments; 0 without one."""
    ends = [
        annotation.end_ns
        for annotation in annotations
        if low <= annotation.start_ns < high and annotation.name.startswith(prefix)
    ]
    return min(max(ends, default=0), high)


def annotations_within(file: TraceFile, step: TraceStep) -> Iterator[Annotation]:
    """The annotations that begin in a step, by start."""
    return _annotations(file, step.host_start_ns, step.host_end_ns)


def next_start_ns(file: TraceFile, moment: int, limit: int) -> int:
    """When the thread of the steps began something new, at the latest the limit."""
    following = _annotations(file, moment, limit)
    return next((begun.start_ns for begun in following if begun.thread == file.thread), limit)


def _annotations(file: TraceFile, low: int, high: int) -> Iterator[Annotation]:
    first = bisect_left(file.annotations, low, key=lambda annotation: annotation.start_ns)
    for place in range(first, len(file.annotations)):
        one = file.annotations[place]
        if one.start_ns >= high:
            return
        yield one


def _outermost(pieces: Sequence[Piece]) -> Iterator[Piece]:
    reached = 0
    for piece in pieces:
        if piece[1] >= reached:
            reached = piece[2]
            yield piece


def _autograd(file: TraceFile, low: int, high: int) -> tuple[int, int] | None:
    starts, ends = file.autograd
    first, last = np.searchsorted(starts, [low, high])
    if first == last:
        return None
    return int(starts[first]), min(int(ends[first:last].max()), high)


def _copied(file: TraceFile, low: int, high: int) -> list[int]:
    """When DDP had copied the buckets into the gradients: its thread wakes after the reduction."""
    starts, ends = file.copies
    first, last = np.searchsorted(starts, [low, high])
    return [int(end) for end in ends[first:last]]


def _submitted(call: CollectiveCall) -> int:
    return call.arrival_ns if call.submitted_ns is None else call.submitted_ns


def _merged_list(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    times = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    starts, ends = merged(times[:, 0], times[:, 1])
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
