"""A hint for the time in which a large timeline is read without compiled code, which is minutes.

Tested in ``tests/cli/progress/test_load_progress.py``.
"""

from pathlib import Path

from hvdprof import units
from hvdprof.ingest.load import SLOW_HINT, Kind, is_slow, recognise
from hvdprof.ingest.load import numba_refusal as numba_refusal


def slow_hint(file: Path) -> str:
    """How to read a file faster; empty for files that are read as fast as this version can.

    Only large files are opened, and only their ends are read.

    Raises:
        UnreadableInputError: A large file cannot be read.
    """
    if numba_refusal():
        return numba_refusal()
    if not file.is_file() or not is_slow(file) or recognise(file).kind != Kind.TIMELINE:
        return ""
    size = units.byte_size(file.stat().st_size)
    return f"{file} has {size} and is read without compiled code: {SLOW_HINT}"
