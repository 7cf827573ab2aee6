"""Ends stopped ranks whose launching side is gone, be it by SIGKILL.

A stopped process neither ends by itself nor sees that its launcher has died. This waits in a
process of its own, ``python -m hvdprof.launch.turns.orphan_guard MARK...``, for the end of a pipe
that the launching side alone holds open.

Tested in ``tests/launch/turns/test_resident_launches.py``.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from hvdprof.launch.plan.provenance import python_program
from hvdprof.launch.plan.workload import INSTALLED_ALONE
from hvdprof.launch.processes.launch_process import end_marked

DISMISSED = b"."


@contextlib.contextmanager
def orphan_guard(marks: Sequence[str]) -> Iterator[None]:
    """A context in which a guard ends the marked processes if this one dies."""
    guard = subprocess.Popen(
        python_program("hvdprof.launch.turns.orphan_guard", *marks),
        env={**os.environ, **INSTALLED_ALONE},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A signal to the group of the launching side, such as Ctrl-C, is not for the guard.
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.communicate(DISMISSED)


def main() -> None:
    """Wait for the end of the launching side, and end what it leaves behind."""
    if sys.stdin.buffer.read(1) != DISMISSED:
        for mark in sys.argv[1:]:
            end_marked(mark, None)


if __name__ == "__main__":
    main()
