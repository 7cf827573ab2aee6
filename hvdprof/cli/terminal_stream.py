"""Standard output on a terminal: what formats such as CSV hold as it is takes no effect there."""

import io
import re
from typing import TextIO

from hvdprof.plain_text import printable_lines

_COLOURS = re.compile(r"(\x1b\[[\d;]*m)")


class TerminalStream(io.TextIOBase):
    """A stream of a terminal that takes lines and colours, and shows other controls as escapes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; its length."""
        parts = _COLOURS.split(text)
        # Every second part is a sequence of colours.
        parts[::2] = map(printable_lines, parts[::2])
        self._stream.write("".join(parts))
        return len(text)

    def flush(self) -> None:
        """Hand on what is written."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Its descriptor."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """True."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the terminal."""
        return self._stream.encoding
