"""What one profiler trace holds: who wrote it, annotations, collectives, and busy intervals."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hvdprof.ingest.kineto.collective_calls import (
    DEFAULT_GROUP,
    CollectiveCall,
    as_submission,
    called_by_name,
    with_submissions,
)
from hvdprof.ingest.kineto.event_rows import EventRows
from hvdprof.ingest.kineto.kernel_calls import copied_calls, with_kernels
from hvdprof.ingest.kineto.trace_events import GLOO, NCCL, Annotation, Collected, collect
from hvdprof.ingest.kineto.trace_records import TraceText, args_of, trace_records
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.json_codec import parse_first

_FSDP2 = "FSDP::"
_FSDP1 = "FullyShardedDataParallel."
_DDP = "DistributedDataParallel."
FSDP2_GATHERS, FSDP2_REDUCES = "FSDP::all_gather", "FSDP::post_backward_reduce"
"""First word of the ranges of FSDP2 around its collectives; the group of parameters follows."""

_EPOCH_FROM_US = 10**15
"""Microseconds since 1970 have been above this since 2001; times since boot never are."""


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
        autograd_numbers: The sequence number of each; -1 where it has none.
        operators: Start, end and sequence number of the operators of forward, by start: those that
            the thread of the steps runs.
        copies: Start and end of DDP's copies of reduced buckets into gradients, by start.
        allocations: Start and end of cudaMalloc and cudaFree on the host, by start.
        launches: Start on the host and start and end on the GPU of every kernel that computes.
        on_gpu: It holds kernels.
        copies_to_host: Its collectives ran on the host with tensors of the GPU (Gloo).
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
    autograd_numbers: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    operators: tuple[Int64s, Int64s, Int64s] = (np.empty(0, np.int64),) * 3
    copies: tuple[Int64s, Int64s] = (np.empty(0, np.int64), np.empty(0, np.int64))
    allocations: tuple[Int64s, Int64s] = (np.empty(0, np.int64), np.empty(0, np.int64))
    launches: tuple[Int64s, Int64s, Int64s] = (np.empty(0, np.int64),) * 3
    on_gpu: bool = False
    copies_to_host: bool = False
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
    def times_collectives(self) -> bool:
        """Whether it has the end of a collective: without one, nothing says what is a wait."""
        return any(call.end_ns is not None for call in self.calls)

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


def read_trace_file(path: Path, *, progress: Progress | None = None) -> TraceFile:
    """What a trace holds; damage is noted, and what stands before it is used.

    Memory grows with kernels, annotations, collectives and the operators of forward: about 24 bytes
    per kernel or operator.

    Args:
        path: The trace, plain or compressed.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        OSError: The file cannot be read.
        UnreadableInputError: It is no profiler trace.
    """
    text, collected = TraceText(), Collected()
    for record in trace_records(path, text, EventRows(collected), progress=progress):
        collect(record, collected)
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


def _fill(file: TraceFile, collected: Collected) -> None:
    annotations = sorted(collected.annotations, key=lambda pair: pair[0].start_ns)
    file.annotations = [annotation for annotation, record in annotations if not record]
    threads = Counter(annotation.thread for annotation in file.annotations)
    file.thread = max(threads, key=threads.__getitem__, default=-1)
    threaded = [
        (call, one.thread)
        for one, record in annotations
        if record and (call := _call_of(one, record, file.size)) is not None
    ]
    named = [call for call, _ in threaded]
    file.on_gpu = bool(collected.kernels or len(collected.compute[0]))
    starts, ends, file.autograd_numbers = _by_start(*collected.autograd)
    file.autograd = starts, ends
    starts, ends, numbers, threads_of = _by_start(*collected.operators)
    is_own = threads_of == file.thread
    file.operators = starts[is_own], ends[is_own], numbers[is_own]
    starts, ends = _by_start(*collected.copies)
    file.copies = starts, ends
    starts, ends = _by_start(*collected.allocations)
    file.allocations = starts, ends
    if file.on_gpu:
        file.launches = _launches(collected)
        file.calls = with_kernels(collected.with_args, named, collected.kernels, collected.on_gpu)
        by_host = [pair for pair in threaded if pair[0].name.startswith(GLOO)]
        if by_host and not file.times_collectives:
            submissions = sorted(collected.submissions)
            file.calls = copied_calls(by_host, submissions, collected.stream_waits)
            file.copies_to_host = True
    else:
        # Without the kernels of NCCL nothing says how long its collectives took.
        named = [as_submission(call) if call.name.startswith(NCCL) else call for call in named]
        file.calls = with_submissions(named, sorted(collected.submissions))
    file.calls.sort(key=lambda call: call.arrival_ns)


def _call_of(one: Annotation, record: bytes, size: int | None) -> CollectiveCall | None:
    times = (one.start_ns, one.end_ns - one.start_ns)
    return called_by_name(one.name, args_of(record), times, DEFAULT_GROUP, size)


def _by_start(*columns: Sequence[int]) -> list[Int64s]:
    """Columns in the order of the first."""
    found = [np.asarray(column, dtype=np.int64) for column in columns]
    order = np.argsort(found[0], kind="stable")
    return [column[order] for column in found]


def _launches(collected: Collected) -> tuple[Int64s, Int64s, Int64s]:
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


_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*([0-3]?\d{1,18})(?!\d)')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,255})"')
_JOB = re.compile(rb'"distributedInfo"\s*:\s*(\{)')


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """Rank, size, backend, host, groups and base time as ``TraceFile`` has them, and notes."""

    rank: int | None
    size: int | None
    backend: str
    host: str
    groups: dict[str, tuple[int, ...]]
    base_ns: int | None
    notes: list[str]


def trace_header(text: TraceText) -> TraceHeader:
    """The facts around the events; None and empty where they are not stated."""
    around = text.head + b"\n" + text.tail
    job = _JOB.search(around)
    facts: dict[str, object] = {}
    notes = []
    if job is not None:
        try:
            facts = parse_first(around[job.start(1) :])
        except ValueError:
            notes.append("its distributedInfo is damaged")
    rank, size = facts.get("rank"), facts.get("world_size")
    host = _HOST.search(around)
    base = _BASE.search(text.tail) or _BASE.search(text.head)
    return TraceHeader(
        rank=rank if isinstance(rank, int) else None,
        size=size if isinstance(size, int) else None,
        backend=str(facts.get("backend", "")),
        host=host[1].decode("utf-8", "replace") if host else "",
        groups=_groups(facts.get("pg_config")),
        base_ns=int(base[1]) if base else None,
        notes=notes,
    )


def _groups(stated: object) -> dict[str, tuple[int, ...]]:
    """The process groups whose ranks are listed as numbers, without gaps."""
    found = {}
    for group in stated if isinstance(stated, list) else []:
        if not isinstance(group, dict):
            continue
        ranks, size = group.get("ranks"), group.get("pg_size")
        is_list = isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks)
        # Long lists are cut.
        if isinstance(ranks, list) and is_list and ranks and size in (None, len(ranks)):
            found[str(group.get("pg_name", ""))] = tuple(ranks)
    return found
