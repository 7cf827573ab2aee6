"""Lines on single calls: collectives, calls of the interface, choices of algorithm, traces.

NCCL prints lines of level CALL (NCCL_DEBUG_SUBSYS=CALL, or builds with TRACE=1) so that calls can
be replayed:
https://github.com/NVIDIA/nccl, ``TRACE_CALL`` in src/init.cc, src/group.cc and src/enqueue.cc.
"""

import re
from dataclasses import dataclass

from hvdprof.ingest.nccl.communicators import member_of_pointer, read_returned_init
from hvdprof.ingest.nccl.line_reader import reads, without_numbers
from hvdprof.ingest.nccl.logbook import Logbook, Member, Message

_DTYPES: tuple[tuple[str, int], ...] = (
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8_e4m3", 1),
    ("float8_e5m2", 1),
)
"""Name and bytes of an element by its number in ``ncclDataType_t`` of NCCL's header nccl.h."""

_REDUCTIONS = ("sum", "prod", "max", "min", "avg")
"""By their number in ``ncclRedOp_t`` of nccl.h."""

_POINTER = r"(0x[0-9a-f]{1,16})"
_FUNCTION = re.compile(r"^p?nccl[A-Z]\w{0,60}\(.*\)\s*$")
_COLLECTIVE = re.compile(
    r"^nccl(\w{1,32})\([0-9a-f]{1,16},[0-9a-f]{1,16},(\d{1,18}),(\d{1,4}),(\d{1,10}),"
    rf"(-?\d{{1,7}}),{_POINTER},\S+\)"
)
_INIT_RANK = re.compile(
    rf"^ncclCommInitRank\w*\({_POINTER}, ?(\d{{1,7}}), ?(0x[0-9a-f]{{1,16}}), ?(\d{{1,7}}), ?"
    r"(\d{1,4})\)"
)
_SPLIT = re.compile(
    rf"^ncclCommSplit\([^,]+, ?-?\d+, ?-?\d+, ?{_POINTER}, ?(\d{{1,7}}), ?(\d{{1,7}})\)"
)
_STAMP = re.compile(r"(\d{1,12}\.\d{1,9}) \S+:\d{1,7} [NR]CCL TRACE ")
_LONGEST_TEXT = 200
_CELL = re.compile(r"^\s*(\d{1,9}\.\d+)/\s*(\d{1,9}\.\d+)\s*$")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""By number since 2.14; before that 2 was the only CollNet."""

_PROTOCOLS = ("LL", "LL128", "SIMPLE")


REST_OF_CALL = re.compile(
    r"count (\d{1,18}) datatype (\d{1,4}) op (\d{1,18}) root (-?\d{1,7}) "
    r"comm (0x[0-9a-f]{1,16}) \[nranks=(\d{1,7})\]"
)
"""What stands behind the buffers of a call."""


@reads(
    r"^(\w{1,32}): opCount ([0-9a-f]{1,15}) sendbuff \S+ recvbuff \S+ "
    rf"{REST_OF_CALL.pattern}"
)
def read_call(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`AllReduce: opCount 5f7 sendbuff ... count 4 datatype 0 op 0 root 0 comm 0x.. [nranks=4]`.

    The counter is hexadecimal and counts per communicator.
    """
    operation, op_count, count, dtype, reduction, root, pointer, num_ranks = match.groups()
    log.processes[said.process].says_coll = True
    member = member_of_pointer(log, said, pointer, int(num_ranks))
    call = Call(operation, int(op_count, 16), int(count), int(dtype), int(reduction), int(root))
    keep_call(log, said, member, call, "COLL")


@dataclass(frozen=True, slots=True)
class Call:
    """A collective call in NCCL's numbers; ``op_count`` is ``None`` where the line has none."""

    operation: str
    op_count: int | None
    count: int
    dtype: int
    reduction: int
    root: int


def keep_call(log: Logbook, said: Message, member: Member, call: Call, subsystem: str) -> None:
    """Add a call to NCCL_CALLS, its numbers as names."""
    log.progressed(said)
    log.add("nccl_calls", said, *call_values(member, call, subsystem))


def call_values(member: Member, call: Call, subsystem: str) -> tuple[object, ...]:
    """The columns of NCCL_CALLS up to its source; the communicator and rank are its context."""
    name, size = _dtype(call.dtype)
    num_bytes = call.count * size if size is not None and call.count < 1 << 59 else None
    number = call.reduction
    return (
        member.context,
        member.context,
        call.operation,
        call.op_count,
        call.count,
        name,
        num_bytes,
        _REDUCTIONS[number] if 0 <= number < len(_REDUCTIONS) else f"op{number}",
        call.root,
        subsystem,
    )


def _dtype(number: int) -> tuple[str, int | None]:
    return _DTYPES[number] if number < len(_DTYPES) else (f"type{number}", None)


def read_interface_call(log: Logbook, said: Message) -> bool:
    """A line of level CALL.

    Collectives become rows of NCCL_CALLS where the process prints no COLL lines, which say the same
    and come first; a returned init has a communicator's ranks. Other calls (groups, unique ids,
    reductions of the user) are recognised, and no table holds them.
    """
    collective = _COLLECTIVE.match(said.text)
    if collective is not None:
        return _collective(log, said, collective)
    init = _INIT_RANK.match(said.text)
    if init is not None:
        pointer, num_ranks, comm_id, rank, device = init.groups()
        pairs = {"rank": rank, "nranks": num_ranks, "commId": comm_id, "cudaDev": device}
        return read_returned_init(log, said, pointer, pairs)
    split = _SPLIT.match(said.text)
    if split is not None:
        pairs = {"rank": split[2], "nranks": split[3]}
        return read_returned_init(log, said, split[1], pairs)
    return _FUNCTION.match(said.text) is not None


def _collective(log: Logbook, said: Message, found: re.Match[str]) -> bool:
    operation, count, dtype, reduction, root, pointer = found.groups()
    if not log.processes[said.process].says_coll:
        member = member_of_pointer(log, said, pointer, None)
        call = Call(operation, None, int(count), int(dtype), int(reduction), int(root))
        keep_call(log, said, member, call, "CALL")
    return True


def read_trace(log: Logbook, said: Message) -> bool:
    """`117.724290 nccl_net_ofi_init:1396 NCCL TRACE NET/OFI Provider cxi does not ...`.

    The stamp is in milliseconds (``ncclDebugLog`` in src/debug.cc of NCCL multiplies seconds by
    1000). Numbers in the text are replaced, so that a long log holds each sentence once.
    """
    stamp = _STAMP.search(said.raw)
    log.add(
        "nccl_traces",
        said,
        None if stamp is None else round(float(stamp[1]) * 1e6),
        said.where,
        without_numbers(said.text)[:_LONGEST_TEXT],
    )
    return bool(said.text)


def read_heading(log: Logbook, said: Message) -> bool:
    """The lines above the table: algorithms, then the protocols of each.

    The protocols are printed three times over even where the block has one algorithm.
    Up to 2.12 one line names both: `Latency/AlgBw | Tree/ LL | ...`.
    """
    word, *cells = (cell.strip() for cell in said.text.rstrip(" |").split("|"))
    key = said.process, said.tid
    if word == "Algorithm":
        log.headings[key] = [(cell, "") for cell in cells]
    elif word == "Protocol":
        algorithms = [algorithm for algorithm, _ in log.headings.get(key, [])]
        protocols = list(dict.fromkeys(cells))
        log.headings[key] = [(name, protocol) for name in algorithms for protocol in protocols]
    elif word == "Latency/AlgBw":
        parts = [cell.partition("/") for cell in cells]
        log.headings[key] = [(left.strip(), right.strip()) for left, _, right in parts]
    return bool(cells)


def read_cells(log: Logbook, said: Message) -> bool:
    """`AllReduce | 8.0/ 37.9 | ...`: latency in microseconds / bandwidth in GB/s."""
    operation, *cells = said.text.strip().rstrip("|").split("|")
    heading = log.headings.get((said.process, said.tid), [])
    estimates = [match for match in map(_CELL.match, cells) if match is not None]
    if not cells or len(cells) != len(heading) or len(estimates) < len(cells):
        return False
    for names, cell in zip(heading, estimates, strict=True):
        numbers = float(cell[1]) * 1e3, float(cell[2])
        log.add("nccl_tuning", said, log.context(said), operation.strip(), *names, *numbers)
    return True


@reads(
    r"^(\w{1,32}): (\d{1,18}) Bytes -> Algo (\w+) proto (\w+) "
    r"channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\}"
)
def read_choice(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}` (2.22)."""
    operation, size, algorithm, protocol, first, last = match.groups()
    choice = operation, int(size), algorithm, protocol, int(first), int(last), float("nan")
    log.add("nccl_choices", said, *choice)


@reads(
    r"^\w{1,32} \[(?:Symmetric|Copy Engine|Hierarchical CE)\]: \d{1,18} Bytes -> "
    r"(?:Kernel |cudaMemcpy|RMA )"
)
def read_other_path(_log: Logbook, _said: Message, _match: re.Match[str]) -> None:
    """`AllReduce [Symmetric]: 1024 Bytes -> Kernel ...` (2.28): no algorithm, no protocol."""


@reads(r"^(\d{1,18}) Bytes -> Algo (\d{1,2}) proto (\d{1,2}) time (\d{1,15}\.\d+)")
def read_old_choice(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`40 Bytes -> Algo 1 proto 0 time 8.616000`, in microseconds (before 2.22)."""
    names = _name(_ALGORITHMS, int(match[2])), _name(_PROTOCOLS, int(match[3]))
    time_ns = float(match[4]) * 1e3
    log.add("nccl_choices", said, "", int(match[1]), *names, None, None, time_ns)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)
