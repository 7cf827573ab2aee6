"""Files of one record per line, of which any line may be damaged, torn or endless.

Tested in ``tests/rundir/test_line_file.py``.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hvdprof.rundir.json_codec import JsonObject
from hvdprof.rundir.json_text import DAMAGE, parse_json
from hvdprof.rundir.regular_file import open_regular

LONGEST_LINE = 1 << 24
"""Bytes; no writer of hvdprof comes near them."""


def whole_lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Lines with their end; ``None`` for one that is longer than any that is written."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        yield None


def read_lines(path: Path, take: Callable[[int, JsonObject], object]) -> list[str]:
    """Hand the object of each line on; a clause for each line that is damaged.

    Args:
        path: The file.
        take: Called with the number of a line and its object; what it raises of ``DAMAGE`` is the
            damage of that line.

    Raises:
        OSError: The file cannot be read.
    """
    clauses = []
    with open_regular(path) as stream:
        for number, text in enumerate(whole_lines(stream), start=1):
            try:
                if text is None:
                    raise ValueError("it is too long")
                if not text.strip():
                    continue
                line = parse_json(text)
                if not isinstance(line, dict):
                    raise ValueError("it is no object")
                take(number, line)
            except DAMAGE as error:
                clauses.append(damaged(number, error))
    return clauses


def damaged(number: int, error: Exception) -> str:
    """The clause that names a damaged line."""
    return f"line {number} is damaged: {type(error).__name__}"
