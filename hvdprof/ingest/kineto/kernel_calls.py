"""The collectives of a GPU trace: what the host submitted, with the times of its kernels.

CUDA names the submission in each kernel (``External id``). RCCL's kernels name nothing: there the
annotation on the GPU names the one on the host, which lies within the submission. Traces of 2023
hold neither arguments nor links, so their kernels stand for themselves.

Tested in ``tests/ingest/kineto/test_trace_file.py``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hvdprof.ingest.kineto.collective_calls import (
    DEFAULT_GROUP,
    CollectiveCall,
    as_submission,
    collective_of,
)

Spans = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of NCCL or RCCL, ns; ``external_id`` is the event of the host that launched it."""

    name: str
    start_ns: int
    end_ns: int
    stream: int
    external_id: int | None


@dataclass(frozen=True, slots=True)
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
        submitted: Calls of ``record_param_comms`` with arguments.
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
    span = None if external_id is None else spans.get(external_id)
    return call if span is None else replace(call, start_ns=span[0], end_ns=span[1], on_gpu=True)


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
