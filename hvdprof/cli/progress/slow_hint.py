"""A word while a large timeline is read without compiled code, which takes minutes."""

from pathlib import Path

from hvdprof import units
from hvdprof.ingest.recognise import Kind, recognise
from hvdprof.ingest.timeline.parse import SLOW_HINT, is_slow


def slow_hint(file: Path) -> str:
    """What to tell the user of a file; empty where reading is no slower than it could be.

    Only large files are opened, and only their ends are read.

    Raises:
        UnreadableInputError: A large file cannot be read.
    """
    if not file.is_file() or not is_slow(file) or recognise(file).kind != Kind.TIMELINE:
        return ""
    size = units.byte_size(file.stat().st_size)
    return f"{file} has {size} and is read without compiled code: {SLOW_HINT}"
