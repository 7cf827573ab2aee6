"""The collectives of a GPU trace: by its kernels, and those that ran on the host.

CUDA names the submission in each kernel (``External id``). RCCL's kernels name nothing: there the
annotation on the GPU names the one on the host, which lies within the submission. Traces of 2023
hold neither arguments nor links, so their kernels stand for themselves.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hvdprof.ingest.kineto.collective_calls import (
    DEFAULT_GROUP,
    CollectiveCall,
    as_submission,
    collective_of,
    with_submissions,
)


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A thread that waited for a stream of the GPU, ns."""

    thread: int
    start_ns: int
    end_ns: int


def copied_calls(
    annotated: Sequence[tuple[CollectiveCall, int]],
    submissions: Iterable[tuple[int, int, str]],
    waits: Iterable[StreamWait],
) -> list[CollectiveCall]:
    """Calls of Gloo with tensors of a GPU; each starts when its tensor is on the host.

    A call without a copy to the host, such as a broadcast where it is received, starts with its
    annotation.

    Args:
        annotated: The calls by start of their annotation, with its thread.
        submissions: Start, end and name of the host's operations by start.
        waits: Waits for streams, in any order.
    """
    by_thread: dict[int, list[StreamWait]] = {}
    for wait in sorted(waits, key=lambda wait: wait.end_ns):
        by_thread.setdefault(wait.thread, []).append(wait)
    calls = with_submissions([call for call, _ in annotated], submissions)
    threads = [thread for _, thread in annotated]
    return [
        replace(call, start_ns=_ready_ns(call, by_thread.get(thread, [])), on_gpu=True)
        for call, thread in zip(calls, threads, strict=True)
    ]


def _ready_ns(call: CollectiveCall, waits: Sequence[StreamWait]) -> int | None:
    """The end of the last wait of its thread within the call; its start without one."""
    if call.start_ns is None or call.end_ns is None:
        return call.start_ns
    place = bisect_left(waits, call.end_ns, key=lambda wait: wait.end_ns) - 1
    is_within = place >= 0 and waits[place].start_ns >= call.start_ns
    return waits[place].end_ns if is_within else call.start_ns


Spans = dict[int, tuple[int, int]]


@dataclass(slots=True)
class Kernel:
    """A kernel of NCCL or RCCL, ns; ``external_id`` is the event of the host that launched it."""

    name: str
    start_ns: int
    end_ns: int
    stream: int
    external_id: int | None


@dataclass(slots=True)
class GpuAnnotation:
    """The extent of an annotation on the GPU, ns, with the host's event of the same name."""

    start_ns: int
    end_ns: int
    external_id: int | None


def with_kernels(
    submitted: Sequence[CollectiveCall],
    annotated: Sequence[CollectiveCall],
    kernels: Sequence[Kernel],
    on_gpu: Sequence[GpuAnnotation],
) -> list[CollectiveCall]:
    """The collectives of a trace with GPU kernels; what cannot be linked has no start and no end.

    Args:
        submitted: Calls of ``record_param_comms`` with arguments; those found are changed.
        annotated: Calls of the host's annotations (``nccl:all_reduce``), whose times are the
            host's.
        kernels: The kernels that communicate.
        on_gpu: The annotations on the GPU.
    """
    spans = _kernel_spans(kernels)
    extents = {
        annotation.external_id: (annotation.start_ns, annotation.end_ns)
        for annotation in on_gpu
        if annotation.external_id is not None
    }
    if not submitted:
        hosted = [as_submission(call) for call in annotated]
        linked = [_timed(call, {**extents, **spans}, call.external_id) for call in hosted]
        if any(call.end_ns is not None for call in linked):
            return linked
        return [_alone(kernel) for kernel in kernels] or linked
    inner = _annotations_within(submitted, annotated)
    found = []
    for number, call in enumerate(submitted):
        timed = _timed(call, spans, call.external_id)
        if timed.end_ns is None:
            timed = _timed(call, extents, inner.get(number))
        found.append(timed)
    return found


def _kernel_spans(kernels: Sequence[Kernel]) -> Spans:
    """From the first start to the last end of the kernels of each submission."""
    spans: Spans = {}
    for kernel in kernels:
        if kernel.external_id is not None:
            start, end = spans.get(kernel.external_id, (kernel.start_ns, kernel.end_ns))
            spans[kernel.external_id] = (min(start, kernel.start_ns), max(end, kernel.end_ns))
    return spans


def _timed(call: CollectiveCall, spans: Spans, external_id: int | None) -> CollectiveCall:
    """The call itself: a copy of each would take a sixth of the Python of reading."""
    span = None if external_id is None else spans.get(external_id)
    if span is not None:
        call.start_ns, call.end_ns, call.on_gpu = *span, True
    return call


def _annotations_within(
    submitted: Sequence[CollectiveCall], annotated: Sequence[CollectiveCall]
) -> dict[int, int]:
    """By place of a submission, the event id of the annotation within it."""
    order = sorted(range(len(submitted)), key=lambda number: submitted[number].submitted_ns or 0)
    starts = [submitted[number].submitted_ns or 0 for number in order]
    found = {}
    for call in annotated:
        place = bisect_right(starts, call.start_ns or 0) - 1
        if place < 0 or call.external_id is None:
            continue
        number = order[place]
        if (call.end_ns or 0) <= (submitted[number].submitted_end_ns or 0):
            found[number] = call.external_id
    return found


def _alone(kernel: Kernel) -> CollectiveCall:
    return CollectiveCall(
        collective=collective_of(kernel.name) or "UNKNOWN",
        name=kernel.name.partition("(")[0],
        group=DEFAULT_GROUP,
        start_ns=kernel.start_ns,
        end_ns=kernel.end_ns,
        on_gpu=True,
    )
