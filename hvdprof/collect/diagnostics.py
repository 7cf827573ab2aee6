"""What goes wrong in the recorder, told where the user of the script reads."""

import contextlib
import sys


def print_problem(message: str) -> None:
    """One line on stderr; where that is closed or full too, nobody is left to tell."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"hvdprof recorder: {message}\n")
