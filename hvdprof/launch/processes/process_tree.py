"""The processes that a process has started, such as the workers of a data loader."""

from collections.abc import Iterable
from pathlib import Path


def with_descendants(process_ids: Iterable[int]) -> list[int]:
    """The processes and all below them, parents first; those that have ended are left out.

    Children of a process that has ended belong to another parent, and are not found.
    """
    found: dict[int, None] = {}
    left = list(process_ids)
    while left:
        process_id = left.pop(0)
        if process_id not in found:
            children = _children(process_id)
            if children is not None:
                found[process_id] = None
                left += children
    return list(found)


def memory_bytes(process_ids: Iterable[int]) -> int:
    """The memory of processes, shared pages divided among those that share them."""
    return sum(_memory_bytes(process_id) for process_id in process_ids)


def _memory_bytes(process_id: int) -> int:
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        # It has just ended.
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _children(process_id: int) -> list[int] | None:
    """The children of all threads of a process; None where it has ended."""
    try:
        threads = list(Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return None
    children: list[int] = []
    for thread in threads:
        try:
            children += map(int, (thread / "children").read_text().split())
        except OSError:
            # The thread has ended, or the kernel has no such file.
            continue
    return children
