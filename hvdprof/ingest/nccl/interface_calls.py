"""Lines of level CALL: one for each call of NCCL's interface, with its arguments as they came.

NCCL prints them (NCCL_DEBUG_SUBSYS=CALL, or builds with TRACE=1) so that calls can be replayed:
https://github.com/NVIDIA/nccl, ``TRACE_CALL`` in src/init.cc, src/group.cc and src/enqueue.cc.
"""

import re

from hvdprof.ingest.nccl.calls import Call, keep_call
from hvdprof.ingest.nccl.communicators import member_of_pointer, read_returned_init
from hvdprof.ingest.nccl.logbook import Logbook, Message

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
