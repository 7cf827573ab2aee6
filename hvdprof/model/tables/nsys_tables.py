"""The tables of exports of Nsight Systems, and the events of which a reader makes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.log_tables import FILE

_PROCESS = Column("pid", "int64", "Process; 0 where the export does not say.")
_DEVICE = Column("device", "int64", "Number of the GPU, as the process sees it.")
_RANK = Column(
    "rank",
    "Int32",
    "Rank in the largest communicator of the process; missing without NCCL's payloads.",
)
_GPU = (FILE, _PROCESS, _DEVICE, _RANK)

NSYS_GPUS = Table(
    "nsys_gpus",
    "One GPU of one process in an export of Nsight Systems: how long it computed and communicated.",
    (
        *_GPU,
        Column("num_kernels", "int64", "Kernels, those of NCCL included."),
        Column("num_nccl_kernels", "int64", "Kernels of NCCL or RCCL."),
        Column(
            "num_nccl_calls", "int64", "NVTX ranges of NCCL's own domain, of the whole process."
        ),
        Column("num_steps", "int64", "Steps marked by NVTX ranges, in which it has kernels."),
        Column("span_ns", "int64", "From the first start of a kernel to the last end.", "ns"),
        Column("computing_ns", "int64", "Time with a kernel that is not NCCL's.", "ns"),
        Column(
            "communicating_ns",
            "int64",
            "Time with a kernel of NCCL, waiting for other ranks included.",
            "ns",
        ),
        Column("exposed_ns", "int64", "Part of it without computation beside it.", "ns"),
        Column("idle_ns", "int64", "Time without any kernel.", "ns"),
    ),
)

NSYS_NCCL_KERNELS = Table(
    "nsys_nccl_kernels",
    "All NCCL kernels of one name on one GPU of an export of Nsight Systems.",
    (
        *_GPU,
        Column("name", "category", "Name of the kernel, verbatim."),
        Column("collective", "category", "ALLREDUCE, SENDRECV ...; empty where unnamed."),
        Column("number", "int64", "How many ran."),
        Column("total_ns", "int64", "Sum of their lengths.", "ns"),
        Column("median_ns", "float64", "Median length.", "ns"),
        Column("exposed_ns", "int64", "Part of the sum without computation beside it.", "ns"),
    ),
)

NSYS_NCCL_CALLS = Table(
    "nsys_nccl_calls",
    "All calls of one NCCL function and size by one process, from NCCL's NVTX ranges.",
    (
        FILE,
        _PROCESS,
        Column("function", "category", "ncclAllReduce, ncclSend ... as NCCL names its range."),
        Column("communicator", "category", "Hash of the communicator; empty if not stated."),
        Column("rank", "Int32", "Rank in the communicator; missing where not stated."),
        Column("num_ranks", "Int64", "Ranks of the communicator; missing where not stated."),
        Column(
            "message_bytes",
            "Int64",
            "Message size as NCCL states it: of one rank; missing without a payload.",
            "bytes",
        ),
        Column(
            "size_bytes",
            "Int64",
            "Payload as nccl-tests counts it: of all ranks for AllGather and ReduceScatter.",
            "bytes",
        ),
        Column("number", "int64", "How many calls."),
    ),
)

NSYS_STEPS = Table(
    "nsys_steps",
    "One step of one GPU in an export of Nsight Systems, where NVTX ranges mark the steps.",
    (
        *_GPU,
        Column("step", "int64", "Number in the name of the range."),
        Column("range_name", "category", "What the names of the ranges have in common."),
        Column("start_ns", "int64", "Begin of the range on the clock of the recording.", "ns"),
        Column("host_ns", "int64", "Length of the range on the host.", "ns"),
        Column("num_kernels", "int64", "Kernels that the host launched in it."),
        Column("span_ns", "int64", "From their first start to their last end.", "ns"),
        Column("computing_ns", "int64", "Time with one of them that is not NCCL's.", "ns"),
        Column(
            "communicating_ns",
            "int64",
            "Time with one of NCCL's, waiting for other ranks included.",
            "ns",
        ),
        Column(
            "exposed_ns", "int64", "Part of it without computation of any step beside it.", "ns"
        ),
        Column("overlapped_ns", "int64", "Part of it that computation hides.", "ns"),
    ),
)

NSYS_TABLES = (NSYS_GPUS, NSYS_STEPS, NSYS_NCCL_KERNELS, NSYS_NCCL_CALLS)


class NsysKind(StrEnum):
    """What an event is; the order is that of the lanes of a process."""

    RANGE = "range"
    COMPUTE_KERNEL = "compute kernel"
    NCCL_KERNEL = "NCCL kernel"


@dataclass(frozen=True, slots=True)
class NsysLane:
    """Where events happen: a stream of a GPU, or the ranges of one NVTX domain in a thread.

    ``process`` is the number by which the export names a process; ``name`` labels the lane.
    """

    process: int
    kind: NsysKind
    name: str


@dataclass(frozen=True, slots=True)
class NsysEvent:
    """A kernel, a range or a mark (``is_mark``), ns; ``end_ns`` is None where it is not recorded.

    ``name`` is that of the export.
    """

    lane: NsysLane
    name: str
    start_ns: int
    end_ns: int | None
    is_mark: bool = False
    args: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NsysEvents:
    """An open export: names of its processes, lanes in order, and events by start.

    ``events`` are read from the file while they are used, once; of two that start together the
    longer one is first. Times are on the clock of the export, from ``first_ns`` to ``last_ns``.
    """

    processes: Mapping[int, str]
    lanes: Sequence[NsysLane]
    events: Iterable[NsysEvent]
    first_ns: int
    last_ns: int
    version: str
