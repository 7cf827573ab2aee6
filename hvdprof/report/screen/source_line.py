"""A line of the source of a script, where it lies as it lay when the run began."""

from datetime import datetime
from itertools import islice
from pathlib import Path

from hvdprof.rundir.regular_file import open_regular

_LONGEST = 4_000
"""Characters of a line of source from which it is data, not code."""


def source_line(file: str, line: int, begun: datetime) -> str:
    """A line of a Python file without its indent; empty where the file has changed or is not there.

    Args:
        file: Its path, as recorded.
        line: The line, from 1.
        begun: When the run began: a file that was written later is another one.
    """
    path = Path(file)
    # A run directory of a stranger may name any file.
    if path.suffix != ".py" or not path.is_absolute() or line < 1:
        return ""
    try:
        if path.stat().st_mtime > begun.timestamp():
            return ""
        with open_regular(path) as source:
            text = next(islice(source, line - 1, line), b"").decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
    return text if len(text) <= _LONGEST else ""
