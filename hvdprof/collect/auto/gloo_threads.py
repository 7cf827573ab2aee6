"""Lets Gloo's threads come to rest before the interpreter ends.

A thread of Gloo gives back a Python object with the last reduction that it has done. Where it wants
the interpreter's lock for that while the interpreter ends, Python ends the thread, and C++ ends the
process with SIGABRT (torch 2.13; also without hvdprof). A thread that is behind gets its time here.

Tested by tests/collect/auto/test_gloo_threads.py.
"""

import time
from collections.abc import Callable
from pathlib import Path

NAME = "pt_gloo_runloop"
LONGEST_S = 1.0
_LOOK_S = 0.01
_LOOKS_AT_REST = 3
_RUNNING = "R"

TASKS = Path("/proc/self/task")


def wait_for_gloo(
    tasks: Path = TASKS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sleep, without the interpreter's lock, until no thread of Gloo has run at three looks.

    Returns at once where there is none, and after ``LONGEST_S`` in any case.

    Args:
        tasks: A folder per thread of this process, as Linux has it.
        sleep: Releases the lock.
        clock: Seconds.
    """
    until, num_at_rest = clock() + LONGEST_S, 0
    while num_at_rest < _LOOKS_AT_REST and clock() < until:
        states = [state for name, state in _threads(tasks) if name == NAME]
        if not states:
            return
        num_at_rest = 0 if _RUNNING in states else num_at_rest + 1
        sleep(_LOOK_S)


def _threads(tasks: Path) -> list[tuple[str, str]]:
    """Name and state of each thread; none where the system does not say."""
    threads = []
    try:
        for task in tasks.iterdir():
            _, _, text = (task / "stat").read_text(encoding="utf-8").partition("(")
            name, _, rest = text.rpartition(")")
            threads.append((name, rest.split()[0]))
    except (OSError, IndexError):
        # A thread that has just ended, too: it is asked for again.
        return threads
    return threads
