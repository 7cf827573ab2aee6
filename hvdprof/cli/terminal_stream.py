"""Standard output: what it cannot take is one message, what it must not show takes no effect.

What standard error cannot take is lost, and changes neither result nor exit code.

Formats such as CSV hold the control characters of files as they are: a terminal shows escapes.
"""

import contextlib
import errno
import io
import os
import re
import sys
from typing import TextIO

from hvdprof.errors import StorageError
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
        parts[1::2] = [printable_lines(part) if _conceals(part) else part for part in parts[1::2]]
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


class _OutputFile(io.FileIO):
    """Standard output, whose errors name it; a reader that has gone ends a command silently."""

    def write(self, data: object) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise StorageError(
                f"Standard output could not be written: {reason}.",
                hint="Send it elsewhere; commands with a result also take --output FILE.",
            ) from error


class _MessageFile(io.FileIO):
    """Standard error: a message that it cannot take has no other place to go."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        written = None
        with contextlib.suppress(OSError):
            written = super().write(data)
        return data.nbytes if written is None else written


def open_streams() -> None:
    """Make the standard streams ready, those too that the shell closed.

    A file that is opened later must not get the descriptor of a closed one.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # Output fails where it is written; messages have no place to go.
            flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            os.dup2(os.open(os.devnull, flags), number)
            stream = os.fdopen(number, mode, encoding="utf-8")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    # A test or a notebook may have put its own in place.
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_MessageFile(2, "w", closefd=False)),
            sys.stderr.encoding,
            "backslashreplace",
            line_buffering=True,
        )
    is_terminal = sys.stdout.isatty()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        # In a locale without UTF-8 a character is escaped, and the result is still printed.
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_OutputFile(1, "w", closefd=False)),
            sys.stdout.encoding,
            "backslashreplace",
            line_buffering=is_terminal or sys.stdout.write_through,
        )
    if is_terminal:
        sys.stdout = TerminalStream(sys.stdout)


def drop_output() -> None:
    """Lose what standard output could not take, so that Python does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _conceals(colours: str) -> bool:
    attributes = _INDEXED_OR_RGB.sub("", colours[2:-1]).split(";")
    return any(attribute.lstrip("0") == "8" for attribute in attributes)
