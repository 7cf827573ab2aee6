"""Cores of its own for every rank; before torch is imported, which asks for its cores once."""

import os
import sys


def pin_to_own_cores(local_rank: int, num_threads: int) -> bool:
    """Bind this process to ``num_threads`` cores that no other rank of the host gets.

    Returns:
        Whether it was bound; not where the process may use too few cores for its place.
    """
    allowed = sorted(os.sched_getaffinity(0))
    own = allowed[local_rank * num_threads : (local_rank + 1) * num_threads]
    if len(own) < num_threads:
        sys.stderr.write(
            f"local rank {local_rank} is not pinned: {len(allowed)} cores are too few to give "
            f"each rank {num_threads}\n"
        )
        return False
    os.sched_setaffinity(0, own)
    return True
