"""What is gathered of the events of a profiler trace while they pass by."""

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hvdprof.ingest.kineto.collective_calls import CollectiveCall, called_with_args, collective_of
from hvdprof.ingest.kineto.kernel_calls import GpuAnnotation, Kernel, StreamWait
from hvdprof.ingest.kineto.trace_records import (
    args_of,
    category_of,
    name_of,
    phase_of,
    thread_of,
    times_of,
)

_WANTED_OP = re.compile(
    rb'"name"\s*:\s*"(record_param_comms|c10d::|autograd::engine::evaluate_function|'
    rb"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad)"
)
_COMMUNICATES = re.compile(rb'"name"\s*:\s*"(?:void\s+)?(?:nccl|rccl)')
_ALLOCATES = re.compile(rb'"name"\s*:\s*"(?:cuda|hip)(?:Free|Malloc)"')
_WAITS_FOR_STREAM = re.compile(rb'"name"\s*:\s*"(?:cuda|hip)StreamSynchronize"')
_EXTERNAL_ID = re.compile(rb'"External id"\s*:\s*(\d{1,18})(?!\d)')
_NUMBER = re.compile(rb'"Sequence number"\s*:\s*(\d{1,18})(?!\d)')
_OF_BACKWARD = re.compile(rb'"Fwd thread id"\s*:\s*[1-9]')
_CORRELATION = re.compile(rb'"correlation"\s*:\s*(\d{1,18})(?!\d)')
OPERATOR_WITHIN, WITHIN = 256, 512
"""So far from the start of an event its name is looked for."""

Columns = tuple["array[int]", ...]

GLOO, NCCL = "gloo:", "nccl:"
"""How annotations of collectives begin, by the library that runs them."""


@dataclass(slots=True)
class Annotation:
    """A named interval on one thread, ns."""

    name: str
    start_ns: int
    end_ns: int
    thread: int


def _columns(number: int) -> Columns:
    return tuple(array("q") for _ in range(number))


@dataclass(slots=True)
class Collected:
    """What is gathered while the events pass by."""

    annotations: list[tuple[Annotation, bytes]] = field(default_factory=list)
    with_args: list[CollectiveCall] = field(default_factory=list)
    submissions: list[tuple[int, int, str]] = field(default_factory=list)
    on_gpu: list[GpuAnnotation] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    autograd: Columns = field(default_factory=partial(_columns, 3))
    operators: Columns = field(default_factory=partial(_columns, 4))
    copies: Columns = field(default_factory=partial(_columns, 2))
    compute: Columns = field(default_factory=partial(_columns, 3))
    allocations: Columns = field(default_factory=partial(_columns, 2))
    stream_waits: list[StreamWait] = field(default_factory=list)
    runtime: Columns = field(default_factory=partial(_columns, 2))


def collect(record: bytes, collected: Collected) -> None:
    """Gather what an event says; one of another kind says nothing."""
    handler = _HANDLERS.get(category_of(record))
    if handler is not None and phase_of(record) == b"X":
        handler(record, collected)


def _cpu_op(record: bytes, collected: Collected) -> None:
    wanted = _WANTED_OP.search(record, 0, OPERATOR_WITHIN)
    if wanted is None:
        # Operators that backward calls carry numbers of forward, and the thread of that.
        if _NUMBER.search(record) and not _OF_BACKWARD.search(record):
            _add_numbered(record, collected.operators)
        return
    times = times_of(record)
    if times is None:
        return
    start, length = times
    kind = wanted[1]
    if kind == b"record_param_comms":
        call = called_with_args(name_of(record), args_of(record), times)
        if call is not None:
            collected.with_args.append(call)
    elif kind == b"c10d::":
        name = name_of(record)
        if collective_of(name):
            collected.submissions.append((start, start + length, name))
    elif kind.startswith(b"autograd"):
        _add_numbered(record, collected.autograd)
    else:
        collected.copies[0].append(start)
        collected.copies[1].append(start + length)


def _add_numbered(record: bytes, columns: Columns) -> None:
    """Add start, end and sequence number of an event, -1 where it has none, and its thread."""
    times, number = times_of(record), _NUMBER.search(record)
    if times is not None:
        columns[0].append(times[0])
        columns[1].append(sum(times))
        columns[2].append(int(number[1]) if number else -1)
        for column in columns[3:]:
            column.append(thread_of(record))


def _annotation(record: bytes, collected: Collected) -> None:
    times = times_of(record)
    if times is not None:
        start, length = times
        name = name_of(record)
        text = record if name.startswith((GLOO, NCCL, "mpi:", "ucc:")) else b""
        collected.annotations.append(
            (Annotation(name, start, start + length, thread_of(record)), text)
        )


def _gpu_annotation(record: bytes, collected: Collected) -> None:
    times = times_of(record)
    if times is not None and name_of(record).startswith(NCCL):
        collected.on_gpu.append(GpuAnnotation(times[0], sum(times), _external_id(record)))


def _kernel(record: bytes, collected: Collected) -> None:
    times = times_of(record)
    if times is None:
        return
    # Its name may be a template of kilobytes, so it is read where it matters.
    if not _COMMUNICATES.search(record, 0, WITHIN):
        _computing(record, collected)
        return
    collected.kernels.append(
        Kernel(name_of(record), times[0], sum(times), thread_of(record), _external_id(record))
    )


def _external_id(record: bytes) -> int | None:
    found = _EXTERNAL_ID.search(record)
    return int(found[1]) if found else None


def _computing(record: bytes, collected: Collected) -> None:
    times = times_of(record)
    if times is None:
        return
    found = _CORRELATION.search(record)
    starts, ends, correlations = collected.compute
    starts.append(times[0])
    ends.append(sum(times))
    correlations.append(int(found[1]) if found else -1)


def _runtime(record: bytes, collected: Collected) -> None:
    found, times = _CORRELATION.search(record), times_of(record)
    if found is not None and times is not None:
        collected.runtime[0].append(int(found[1]))
        collected.runtime[1].append(times[0])
    if times is not None and _ALLOCATES.search(record, 0, WITHIN):
        collected.allocations[0].append(times[0])
        collected.allocations[1].append(sum(times))
    if times is not None and _WAITS_FOR_STREAM.search(record, 0, WITHIN):
        wait = StreamWait(thread_of(record), times[0], sum(times))
        collected.stream_waits.append(wait)


# Torch before 1.13 wrote capitals.
_HANDLERS: dict[bytes, Callable[[bytes, Collected], None]] = {
    b"cpu_op": _cpu_op,
    b"Operator": _cpu_op,
    b"user_annotation": _annotation,
    b"gpu_user_annotation": _gpu_annotation,
    b"kernel": _kernel,
    b"Kernel": _kernel,
    b"gpu_memcpy": _computing,
    b"gpu_memset": _computing,
    b"Memcpy": _computing,
    b"Memset": _computing,
    b"cuda_runtime": _runtime,
    b"cuda_driver": _runtime,
    b"hip_runtime": _runtime,
    b"Runtime": _runtime,
}
