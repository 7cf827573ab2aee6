"""Readers of NCCL lines: a pattern, and what to keep of a line that it matches.

Tested by the readers in ``tests/ingest/nccl/test_reader.py``.
"""

import re
from collections.abc import Callable

from hvdprof.ingest.nccl.logbook import Logbook, Message

LineReader = Callable[[Logbook, Message], bool]
"""Reads a line into the logbook; False where the line is damaged or of another kind."""

Keep = Callable[[Logbook, Message, re.Match[str]], None]


def reads(pattern: str) -> Callable[[Keep], LineReader]:
    """A reader of the lines that a pattern finds; the decorated function keeps what they say."""
    find = re.compile(pattern).search

    def decorate(keep: Keep) -> LineReader:
        def read(log: Logbook, said: Message) -> bool:
            match = find(said.text)
            if match is not None:
                keep(log, said, match)
            return match is not None

        read.__doc__ = keep.__doc__
        return read

    return decorate
