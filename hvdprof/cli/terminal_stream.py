"""Standard output on a terminal: what formats such as CSV hold as it is takes no effect there."""

import io
import re
from typing import TextIO

from hvdprof.plain_text import printable_lines

_COLOURS = re.compile(r"(\x1b\[[\d;]*m)")
_INDEXED_OR_RGB = re.compile(r"[34]8;(?:5;\d*|2;\d*;\d*;\d*)")


class TerminalStream(io.TextIOBase):
    """A stream of a terminal that takes lines and colours, and shows other controls as escapes.

    Concealed text is shown too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; its length."""
        parts = _COLOURS.split(text)
        # Every second part is a sequence of colours.
        parts[::2] = map(printable_lines, parts[::2])
        parts[1::2] = [printable_lines(one) if _conceals(one) else one for one in parts[1::2]]
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


def _conceals(colours: str) -> bool:
    attributes = _INDEXED_OR_RGB.sub("", colours[2:-1]).split(";")
    return any(one.lstrip("0") == "8" for one in attributes)
