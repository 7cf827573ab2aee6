"""Cores of its own for every rank; before torch is imported, which asks for its cores once."""

import os
import sys
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"


def pin_to_own_cores(local_rank: int, num_threads: int) -> bool:
    """Bind this process to ``num_threads`` cores that no other rank of the host gets.

    Hardware threads of one physical core are assigned last, so that ranks share one only when
    there are more of them than physical cores.

    Returns:
        Whether it was bound; not where the process may use too few cores for its place.
    """
    allowed = os.sched_getaffinity(0)
    if len(allowed) == num_threads:
        # The launcher has given this rank its own already.
        return True
    ordered = physical_first({core: siblings_of(core) for core in sorted(allowed)})
    own = ordered[local_rank * num_threads : (local_rank + 1) * num_threads]
    if len(own) < num_threads:
        sys.stderr.write(
            f"local rank {local_rank} is not pinned: {len(allowed)} cores are too few to give "
            f"each rank {num_threads}\n"
        )
        return False
    os.sched_setaffinity(0, own)
    return True


def physical_first(siblings: dict[int, str]) -> list[int]:
    """Cores so that the first hardware thread of every physical core comes before any second one.

    Args:
        siblings: By core what names its physical core, equal for the threads of one.
    """
    seen: dict[str, int] = {}
    turns = []
    for core in sorted(siblings):
        turn = seen.get(siblings[core], 0)
        seen[siblings[core]] = turn + 1
        turns.append((turn, core))
    return [core for _, core in sorted(turns)]


def siblings_of(core: int) -> str:
    """The hardware threads of a core's physical core, as the kernel lists them; else the core."""
    try:
        return Path(_SIBLINGS.format(core=core)).read_text(encoding="ascii").strip()
    except OSError:
        return str(core)
