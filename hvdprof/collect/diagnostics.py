"""Failures of the recorder, reported where the user of the script reads.

Tested by tests/collect/test_recorder.py.
"""

import contextlib
import sys


def print_problem(message: str) -> None:
    """One line on stderr; dropped where stderr is closed or full."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"hvdprof recorder: {message}\n")
