"""Lines of the subsystem TUNING: the table of estimates, and the choice for one operation."""

import re

from hvdprof.ingest.nccl.logbook import Logbook, Message

_CELL = re.compile(r"^\s*(\d{1,9}\.\d+)/\s*(\d{1,9}\.\d+)\s*$")
_OLD_CHOICE = re.compile(
    r"^(\d{1,18}) Bytes -> Algo (\d{1,2}) proto (\d{1,2}) time (\d{1,15}\.\d+)"
)
_CHOICE = re.compile(
    r"^(\w{1,32}): (\d{1,18}) Bytes -> Algo (\w+) proto (\w+) "
    r"channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\}"
)
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
    found = [_CELL.match(cell) for cell in cells]
    if not cells or len(cells) != len(heading) or None in found:
        return False
    for (algorithm, protocol), cell in zip(heading, found, strict=True):
        if cell is not None:
            log.rows["nccl_tuning"].append(
                log.context(said),
                operation.strip(),
                algorithm,
                protocol,
                float(cell[1]) * 1e3,
                float(cell[2]),
                *log.speaker(said),
            )
    return True


def read_choice(log: Logbook, said: Message) -> bool:
    """`AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}` (2.22)."""
    found = _CHOICE.match(said.text)
    if found is None:
        return False
    operation, size, algorithm, protocol, first, last = found.groups()
    told = operation, int(size), algorithm, protocol, int(first), int(last), float("nan")
    log.rows["nccl_choices"].append(*told, *log.speaker(said))
    return True


def read_old_choice(log: Logbook, said: Message) -> bool:
    """`40 Bytes -> Algo 1 proto 0 time 8.616000`, in microseconds (before 2.22)."""
    found = _OLD_CHOICE.match(said.text)
    if found is None:
        return False
    algorithm = _name(_ALGORITHMS, int(found[2]))
    protocol = _name(_PROTOCOLS, int(found[3]))
    time_ns = float(found[4]) * 1e3
    log.rows["nccl_choices"].append(
        "", int(found[1]), algorithm, protocol, None, None, time_ns, *log.speaker(said)
    )
    return True


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)
