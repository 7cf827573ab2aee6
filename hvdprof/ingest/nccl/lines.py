"""The lines of an NCCL log as its processes wrote them, after the tags of launchers.

Tested in ``tests/ingest/nccl/test_torn.py``.
"""

from collections.abc import Iterator
from pathlib import Path

from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.text.text_lines import line_blocks
from hvdprof.rundir.log_prefixes import without_colours


def read_lines(path: Path, *, progress: Progress | None = None) -> Iterator[str]:
    """The lines of a file, compressed or not, without colour codes and carriage returns.

    Tags of launchers stay: they may stand between the halves of lines that two writers mixed.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        BrokenEndError: The compressed data ends early; raised after all lines before that.
        OSError: It cannot be read.
    """
    for lines, _ in line_blocks(path, progress=progress):
        for line in lines:
            plain = without_colours(line) if "\x1b" in line else line
            yield plain.replace("\r", "") if "\r" in plain else plain
