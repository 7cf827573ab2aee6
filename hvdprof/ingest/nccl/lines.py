"""The lines of a log that may be huge, binary in part, or torn anywhere."""

import re
from collections.abc import Iterator
from pathlib import Path

from hvdprof.errors import UnreadableInputError

_CHUNK_BYTES = 1 << 20
_LONGEST_BYTES = 1 << 16
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends, colour codes and carriage returns.

    At most about a megabyte is held at a time; a line longer than 64 KiB comes in pieces of that
    length, so that a file without any newline costs no more. Bytes that are not UTF-8 become
    replacement characters.

    Raises:
        UnreadableInputError: The file cannot be opened or read.
    """
    try:
        with path.open("rb") as stream:
            rest = b""
            while chunk := stream.read(_CHUNK_BYTES):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    yield from _split(whole)
                while len(rest) > _LONGEST_BYTES:
                    yield from _split(rest[:_LONGEST_BYTES])
                    rest = rest[_LONGEST_BYTES:]
            if rest:
                yield from _split(rest)
    except OSError as error:
        raise UnreadableInputError(
            f"The log {path} cannot be read: {error.strerror or error}.",
            hint="Check the path and its permissions.",
        ) from error


def _split(block: bytes) -> Iterator[str]:
    text = block.decode("utf-8", errors="replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r", "")
    for line in text.split("\n"):
        if len(line) <= _LONGEST_BYTES:
            yield line
        else:
            for start in range(0, len(line), _LONGEST_BYTES):
                yield line[start : start + _LONGEST_BYTES]
