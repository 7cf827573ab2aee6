"""Lines of the subsystem COLL: one for each collective call of a rank.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

import re
from dataclasses import dataclass

from hvdprof.ingest.nccl.communicators import member_of_pointer
from hvdprof.ingest.nccl.line_reader import reads
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


@reads(
    r"^(\w{1,32}): opCount ([0-9a-f]{1,15}) sendbuff \S+ recvbuff \S+ count (\d{1,18}) "
    r"datatype (\d{1,4}) op (\d{1,18}) root (-?\d{1,7}) "
    r"comm (0x[0-9a-f]{1,16}) \[nranks=(\d{1,7})\]"
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
    name, size = _dtype(call.dtype)
    num_bytes = call.count * size if size is not None and call.count < 1 << 59 else None
    number = call.reduction
    log.add(
        "nccl_calls",
        said,
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
