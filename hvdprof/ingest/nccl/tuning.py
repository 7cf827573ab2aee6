"""Lines of the subsystem TUNING: the table of estimates, and the choice for one operation.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

import re

from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Message

_CELL = re.compile(r"^\s*(\d{1,9}\.\d+)/\s*(\d{1,9}\.\d+)\s*$")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""By number since 2.14; before that 2 was the only CollNet."""

_PROTOCOLS = ("LL", "LL128", "SIMPLE")


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
