"""The collectives of one rank's trace: names, payload, and the times of one call from its events.

A call stands in a trace several times: the submission by the host (``c10d::allreduce_``,
``record_param_comms``), an annotation (``nccl:all_reduce``; under Gloo in a worker thread, from
start to end), and on GPUs the kernels of NCCL or RCCL.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hvdprof.ingest.kineto.trace_records import Args

DEFAULT_GROUP = "default_pg"

_COLLECTIVES = (
    (re.compile(r"reduce_?scatter"), "REDUCESCATTER"),
    (re.compile(r"all_?reduce"), "ALLREDUCE"),
    (re.compile(r"all_?gather"), "ALLGATHER"),
    (re.compile(r"all_?to_?all"), "ALLTOALL"),
    (re.compile(r"broadcast"), "BROADCAST"),
    (re.compile(r"barrier"), "BARRIER"),
    (re.compile(r"gather"), "GATHER"),
    (re.compile(r"scatter"), "SCATTER"),
    (re.compile(r"reduce"), "REDUCE"),
    (re.compile(r"sendrecv"), "SENDRECV"),
    (re.compile(r"send"), "SEND"),
    (re.compile(r"recv"), "RECV"),
)
# Rows of record_param_comms that move no data.
_NO_COLLECTIVE = ("wait", "init", "coalesced", "")
_TIMES_GROUP = ("ALLGATHER",)
_SIZES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "signed char": 1,
    "unsigned char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "long int": 8,
    "c10::half": 2, "c10::bfloat16": 2, "complexfloat": 8, "complexdouble": 16,
    "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip


@dataclass(slots=True)
class CollectiveCall:
    """One collective on one rank; times in ns of its clock, None where the trace has none.

    ``external_id`` links the host's event with kernels; ``ranks`` is the text of the group's ranks.
    """

    collective: str
    name: str
    group: str = ""
    group_size: int | None = None
    ranks: str = ""
    seq: int | None = None
    dtype: str = ""
    size_bytes: int | None = None
    submitted_ns: int | None = None
    submitted_end_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    external_id: int | None = None
    on_gpu: bool = False

    @property
    def arrival_ns(self) -> int:
        """When the rank was ready for it: on CPUs its submission.

        On GPUs the start of the kernel, or of the reduction of what was copied to the host.
        """
        first = self.start_ns if self.on_gpu else self.submitted_ns
        if first is not None:
            return first
        times = (self.start_ns, self.submitted_ns, self.end_ns)
        return next(time for time in times if time is not None)

    @property
    def length_ns(self) -> int | None:
        """From its arrival to its end; None where no end is recorded."""
        return None if self.end_ns is None else self.end_ns - self.arrival_ns

    @property
    def signature(self) -> tuple[str, str, int | None]:
        """What is the same on every rank of its group."""
        return self.collective, self.dtype, self.size_bytes


@functools.lru_cache(1024)
def collective_of(name: str) -> str:
    """The collective that a name of c10d, Gloo, NCCL or RCCL says; empty where it says none."""
    lowered = name.lower()
    return next((found for pattern, found in _COLLECTIVES if pattern.search(lowered)), "")


def called_with_args(name: str, args: Args, times: tuple[int, int]) -> CollectiveCall | None:
    """The call of a ``record_param_comms``; None where it is none, or has no arguments (2023)."""
    what = str(args.get("Collective name", ""))
    collective, dtype = collective_of(what), str(args.get("dtype", ""))
    if what in _NO_COLLECTIVE or not collective:
        return None
    size = _whole(args.get("Group size"))
    elements = [_whole(args.get(key)) for key in ("In msg nelems", "Out msg nelems")]
    known = [number for number in elements if number is not None]
    width = element_bytes(dtype)
    # The larger side is that of all ranks: the output of a gather, the input of a scatter.
    total = _bounded(max(known) * width) if known and width is not None else None
    return CollectiveCall(
        collective=collective,
        name=what,
        group=_group(args),
        group_size=size,
        ranks=str(args.get("Process Group Ranks", "")),
        seq=_whole(args.get("Seq")),
        dtype=dtype,
        size_bytes=total,
        submitted_ns=times[0],
        submitted_end_ns=times[0] + times[1],
        external_id=_whole(args.get("External id")),
    )


def _group(args: Args) -> str:
    """The description with the name, which alone distinguishes groups of one purpose."""
    description = str(args.get("Process Group Description", ""))
    name = str(args.get("Process Group Name", ""))
    if description in ("", DEFAULT_GROUP, "undefined"):
        return DEFAULT_GROUP if name in ("", "0") else name
    return f"{description} {name}".strip()


def called_by_name(
    name: str, args: Args, times: tuple[int, int], group: str, group_size: int | None
) -> CollectiveCall | None:
    """The call of an annotation such as ``gloo:all_reduce``, of its start and its end.

    Args:
        name: The annotation.
        args: Its arguments: shapes and types where the profiler recorded them.
        times: Start and length, ns.
        group: Process group.
        group_size: Its ranks, for the payload of a gather.
    """
    collective = collective_of(name)
    if not collective:
        return None
    dtype, payload = shaped_payload(args)
    if payload is not None and collective in _TIMES_GROUP:
        payload = None if group_size is None else _bounded(payload * group_size)
    return CollectiveCall(
        collective=collective,
        name=name,
        group=group,
        group_size=group_size,
        dtype=dtype,
        size_bytes=payload,
        start_ns=times[0],
        end_ns=times[0] + times[1],
        external_id=_whole(args.get("External id")),
    )


def shaped_payload(args: Args) -> tuple[str, int | None]:
    """Type and bytes of the first tensor in ``Input Dims`` and ``Input type``."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or not (shapes and types):
        return "", None
    dtype, width = str(types[0]), element_bytes(str(types[0]))
    if width is None:
        return "" if dtype == "TensorList" else dtype, None
    elements = 1
    for edge in shapes[0] if isinstance(shapes[0], list) else []:
        if not isinstance(edge, int):
            return dtype, None
        elements *= edge
    return dtype, _bounded(elements * width)


def as_submission(call: CollectiveCall) -> CollectiveCall:
    """The call of an annotation that encloses no more than the host's submission (NCCL)."""
    return replace(
        call, submitted_ns=call.start_ns, submitted_end_ns=call.end_ns, start_ns=None, end_ns=None
    )


def element_bytes(dtype: str) -> int | None:
    """The size of an element of a type as profilers name it; None where unknown."""
    lowered = dtype.lower()
    return 1 if "float8" in lowered else _SIZES.get(lowered)


def with_submissions(
    calls: Sequence[CollectiveCall], submissions: Iterable[tuple[int, int, str]]
) -> list[CollectiveCall]:
    """Calls by annotation (Gloo) with the submissions that started them.

    Of each collective the submissions run in the order of the calls. A call whose submission lies
    before the recording has none.

    Args:
        calls: The calls by start.
        submissions: Start, end and name of the host's operations by start.
    """
    waiting: dict[str, list[tuple[int, int]]] = {}
    for start, end, name in submissions:
        waiting.setdefault(collective_of(name), []).append((start, end))
    # Gloo reduces first and scatters then: the annotation is that of the reduction.
    for source in ("REDUCESCATTER",):
        if source in waiting and not any(call.collective == source for call in calls):
            merged = waiting.pop(source) + waiting.get("ALLREDUCE", [])
            waiting["ALLREDUCE"] = sorted(merged)
    found = []
    for call in calls:
        queue = waiting.get(call.collective, [])
        begun = call.start_ns is not None and queue and queue[0][0] <= call.start_ns
        if not begun:
            found.append(call)
            continue
        start, end = queue.pop(0)
        found.append(replace(call, submitted_ns=start, submitted_end_ns=end))
    return found


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return _bounded(int(str(value)))
    except ValueError:
        return None


def _bounded(number: int) -> int | None:
    """A number that fits a column; None for any other."""
    return number if abs(number) < 2**62 else None
