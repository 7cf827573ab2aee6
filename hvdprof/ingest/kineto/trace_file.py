"""What one profiler trace holds: who wrote it, annotations, collectives, and busy intervals."""

import re
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hvdprof.ingest.kineto.collective_calls import (
    DEFAULT_GROUP,
    CollectiveCall,
    called_by_name,
    called_with_args,
    collective_of,
    with_submissions,
)
from hvdprof.ingest.kineto.kernel_calls import GpuAnnotation, Kernel, with_kernels
from hvdprof.ingest.kineto.trace_header import trace_header
from hvdprof.ingest.kineto.trace_records import (
    TraceText,
    args_of,
    category_of,
    name_of,
    phase_of,
    thread_of,
    times_of,
    trace_records,
)
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.model.arrays import Int64s

_WANTED_OP = re.compile(
    rb'"name"\s*:\s*"(record_param_comms|c10d::|autograd::engine::evaluate_function|'
    rb"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad)"
)
_COMMUNICATES = re.compile(rb'"name"\s*:\s*"(?:void\s+)?(?:nccl|rccl)')
_EXTERNAL_ID = re.compile(rb'"External id"\s*:\s*(\d{1,18})(?!\d)')
_CORRELATION = re.compile(rb'"correlation"\s*:\s*(\d{1,18})(?!\d)')
_FSDP2 = "FSDP::"
_FSDP1 = "FullyShardedDataParallel."
_DDP = "DistributedDataParallel."
FSDP2_GATHERS, FSDP2_REDUCES = "FSDP::all_gather", "FSDP::post_backward_reduce"
"""First word of the ranges of FSDP2 around its collectives; the group of parameters follows."""

_EPOCH_FROM_US = 10**15
"""Microseconds since 1970 have been above this since 2001; times since boot never are."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A named interval on one thread, ns."""

    name: str
    start_ns: int
    end_ns: int
    thread: int


@dataclass(slots=True)
class TraceFile:
    """What one trace holds; times in ns since ``base_ns``, which is None in traces of 2023.

    Attributes:
        rank: Rank of the process; None where the trace does not say it.
        size: Ranks of the job; None where the trace does not say it.
        backend: gloo, nccl; empty where unknown.
        host: Name of the host; empty where unknown.
        groups: Ranks of the process groups of this rank by their names, where all are listed.
        base_ns: Time 0 of the trace in ns since 1970.
        annotations: Those of the host by start.
        calls: The collectives by arrival.
        autograd: Start and end of the functions of backward, by start.
        copies: Start and end of DDP's copies of reduced buckets into gradients, by start.
        launches: Start on the host and start and end on the GPU of every kernel that computes.
        on_gpu: It holds kernels.
        notes: Clauses on what is missing or damaged.
        num_records: Events in the file.
        thread: The thread that runs the steps: that of most annotations; -1 without any.
    """

    rank: int | None = None
    size: int | None = None
    backend: str = ""
    host: str = ""
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    base_ns: int | None = None
    annotations: list[Annotation] = field(default_factory=list)
    calls: list[CollectiveCall] = field(default_factory=list)
    autograd: tuple[Int64s, Int64s] = (np.empty(0, np.int64), np.empty(0, np.int64))
    copies: tuple[Int64s, Int64s] = (np.empty(0, np.int64), np.empty(0, np.int64))
    launches: tuple[Int64s, Int64s, Int64s] = (np.empty(0, np.int64),) * 3
    on_gpu: bool = False
    notes: list[str] = field(default_factory=list)
    num_records: int = 0
    thread: int = -1

    @property
    def zero_ns(self) -> int | None:
        """What makes its times ns since 1970; None where they are on no known clock."""
        if self.base_ns is not None:
            return self.base_ns
        times = [annotation.start_ns for annotation in self.annotations[:1]]
        times += [call.arrival_ns for call in self.calls[:1]]
        return 0 if times and min(times) > _EPOCH_FROM_US * 1000 else None

    @property
    def hides_waits(self) -> bool:
        """Whether a step waits several times, and nothing says when.

        That is FSDP1 on CPUs, and FSDP2 without the ranges around its collectives.
        """
        if self.on_gpu:
            return False
        names = {annotation.name for annotation in self.annotations}
        if any(name.startswith(_FSDP1) for name in names):
            return True
        has_ranges = any(name.partition(" ")[0] in (FSDP2_GATHERS, FSDP2_REDUCES) for name in names)
        return bool(self.calls) and self.is_of_fsdp2 and not has_ranges

    @property
    def is_of_fsdp2(self) -> bool:
        """Whether FSDP2 gathers and reduces its parameters."""
        return any(annotation.name.startswith(_FSDP2) for annotation in self.annotations)

    @property
    def is_of_ddp(self) -> bool:
        """Whether DDP runs the model, or copies its reduced buckets."""
        return bool(len(self.copies[0])) or any(
            annotation.name.startswith(_DDP) for annotation in self.annotations
        )


@dataclass(slots=True)
class _Collected:
    """What is gathered while the events pass by."""

    annotations: list[tuple[Annotation, bytes]] = field(default_factory=list)
    with_args: list[CollectiveCall] = field(default_factory=list)
    submissions: list[tuple[int, int, str]] = field(default_factory=list)
    on_gpu: list[GpuAnnotation] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    autograd: tuple["array[int]", "array[int]"] = field(
        default_factory=lambda: (array("q"), array("q"))
    )
    copies: tuple["array[int]", "array[int]"] = field(
        default_factory=lambda: (array("q"), array("q"))
    )
    compute: tuple["array[int]", "array[int]", "array[int]"] = field(
        default_factory=lambda: (array("q"), array("q"), array("q"))
    )
    runtime: tuple["array[int]", "array[int]"] = field(
        default_factory=lambda: (array("q"), array("q"))
    )


def read_trace_file(path: Path, *, progress: Progress | None = None) -> TraceFile:
    """What a trace holds; damage is noted, and what stands before it is used.

    Memory grows with kernels, annotations and collectives alone: about 24 bytes per kernel.

    Args:
        path: The trace, plain or compressed.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        OSError: The file cannot be read.
        UnreadableInputError: It is no profiler trace.
    """
    text, collected = TraceText(), _Collected()
    for record in trace_records(path, text, progress=progress):
        handler = _HANDLERS.get(category_of(record).lower())
        if handler is not None and phase_of(record) == b"X":
            handler(record, collected)
    header = trace_header(text)
    file = TraceFile(
        rank=header.rank,
        size=header.size,
        backend=header.backend,
        host=header.host,
        groups=header.groups,
        base_ns=header.base_ns,
        notes=header.notes,
        num_records=text.num_records,
    )
    _fill(file, collected)
    if text.broken:
        file.notes.append(text.broken)
    if not text.is_complete:
        file.notes.append("it breaks off: the list of events has no end")
    return file


def _cpu_op(record: bytes, collected: _Collected) -> None:
    wanted = _WANTED_OP.search(record, 0, 256)
    times = times_of(record) if wanted else None
    if wanted is None or times is None:
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
    else:
        found = collected.autograd if kind.startswith(b"autograd") else collected.copies
        found[0].append(start)
        found[1].append(start + length)


def _annotation(record: bytes, collected: _Collected) -> None:
    times = times_of(record)
    if times is not None:
        start, length = times
        name = name_of(record)
        text = record if name.startswith(("gloo:", "nccl:", "mpi:", "ucc:")) else b""
        collected.annotations.append(
            (Annotation(name, start, start + length, thread_of(record)), text)
        )


def _gpu_annotation(record: bytes, collected: _Collected) -> None:
    times = times_of(record)
    if times is not None and name_of(record).startswith("nccl:"):
        collected.on_gpu.append(GpuAnnotation(times[0], sum(times), _external_id(record)))


def _kernel(record: bytes, collected: _Collected) -> None:
    times = times_of(record)
    if times is None:
        return
    # Its name may be a template of kilobytes, so it is read where it matters.
    if not _COMMUNICATES.search(record, 0, 512):
        _computing(record, collected)
        return
    collected.kernels.append(
        Kernel(name_of(record), times[0], sum(times), thread_of(record), _external_id(record))
    )


def _external_id(record: bytes) -> int | None:
    found = _EXTERNAL_ID.search(record)
    return int(found[1]) if found else None


def _computing(record: bytes, collected: _Collected) -> None:
    times = times_of(record)
    if times is None:
        return
    found = _CORRELATION.search(record)
    starts, ends, correlations = collected.compute
    starts.append(times[0])
    ends.append(sum(times))
    correlations.append(int(found[1]) if found else -1)


def _runtime(record: bytes, collected: _Collected) -> None:
    found, times = _CORRELATION.search(record), times_of(record)
    if found is not None and times is not None:
        collected.runtime[0].append(int(found[1]))
        collected.runtime[1].append(times[0])


# By category in lower case: torch before 1.13 wrote Operator, Kernel, Runtime.
_HANDLERS: dict[bytes, Callable[[bytes, _Collected], None]] = {
    b"cpu_op": _cpu_op,
    b"operator": _cpu_op,
    b"user_annotation": _annotation,
    b"gpu_user_annotation": _gpu_annotation,
    b"kernel": _kernel,
    b"gpu_memcpy": _computing,
    b"gpu_memset": _computing,
    b"memcpy": _computing,
    b"memset": _computing,
    b"cuda_runtime": _runtime,
    b"cuda_driver": _runtime,
    b"hip_runtime": _runtime,
    b"runtime": _runtime,
}


def _fill(file: TraceFile, collected: _Collected) -> None:
    annotations = sorted(collected.annotations, key=lambda pair: pair[0].start_ns)
    file.annotations = [annotation for annotation, record in annotations if not record]
    threads = Counter(annotation.thread for annotation in file.annotations)
    file.thread = max(threads, key=threads.__getitem__, default=-1)
    named = [
        call
        for one, record in annotations
        if record and (call := _call_of(one, record, file.size)) is not None
    ]
    file.on_gpu = bool(collected.kernels or len(collected.compute[0]))
    file.autograd = _by_start(*collected.autograd)
    file.copies = _by_start(*collected.copies)
    if file.on_gpu:
        file.launches = _launches(collected)
        file.calls = with_kernels(collected.with_args, named, collected.kernels, collected.on_gpu)
    else:
        file.calls = with_submissions(named, sorted(collected.submissions))
    file.calls.sort(key=lambda call: call.arrival_ns)


def _call_of(one: Annotation, record: bytes, size: int | None) -> CollectiveCall | None:
    times = (one.start_ns, one.end_ns - one.start_ns)
    return called_by_name(one.name, args_of(record), times, DEFAULT_GROUP, size)


def _by_start(starts: "array[int]", ends: "array[int]") -> tuple[Int64s, Int64s]:
    begin, end = (np.asarray(times, dtype=np.int64) for times in (starts, ends))
    order = np.argsort(begin, kind="stable")
    return begin[order], end[order]


def _launches(collected: _Collected) -> tuple[Int64s, Int64s, Int64s]:
    """Launch, start and end of each computing kernel; its own start where no launch is recorded."""
    starts, ends, correlations = (np.asarray(ints, dtype=np.int64) for ints in collected.compute)
    keys, times = (np.asarray(ints, dtype=np.int64) for ints in collected.runtime)
    launched = starts.copy()
    if len(keys):
        order = np.argsort(keys, kind="stable")
        place = np.searchsorted(keys[order], correlations)
        place = np.minimum(place, len(keys) - 1)
        known = keys[order][place] == correlations
        launched[known] = times[order][place[known]]
    order = np.argsort(starts, kind="stable")
    return launched[order], starts[order], ends[order]
