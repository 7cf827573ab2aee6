"""Processor time of this process with the workers that it has started; standard library only."""

import os
import resource
import time
from pathlib import Path

_PROC = Path("/proc")
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime: proc_pid_stat(5) counts from 14


def process_tree_time_ns() -> int | None:
    """Processor time so far of this process and of all below it, ended or not, in ns.

    None where the system does not list children. Those that have ended count once they have been
    waited for.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_ns = time.process_time_ns() + round((ended.ru_utime + ended.ru_stime) * 1e9)
    ticks = 0
    left = _children(os.getpid())
    if left is None:
        return None
    while left:
        process_id = left.pop()
        # It may just have ended.
        ticks += _ticks(process_id)
        left += _children(process_id) or []
    return own_ns + ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _children(process_id: int) -> list[int] | None:
    """The children of all threads of a process; None where it has ended, or they are unknown."""
    children: list[int] | None = None
    try:
        threads = list((_PROC / str(process_id) / "task").iterdir())
    except OSError:
        return None
    for thread in threads:
        try:
            listed = (thread / "children").read_text()
        except OSError:
            # The thread has ended, or the kernel has no such file.
            continue
        children = [*(children or []), *map(int, listed.split())]
    return children


def _ticks(process_id: int) -> int:
    try:
        stat = (_PROC / str(process_id) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    # The name of the program, in parentheses, can hold spaces.
    return sum(map(int, stat.rpartition(")")[2].split()[_TIMES]))
