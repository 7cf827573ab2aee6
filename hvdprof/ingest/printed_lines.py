"""What jobs print, line by line: wrappers of launchers taken off, memory bounded.

Launchers put a tag before each line and sometimes into the middle of one: Open MPI writes
``[1,0]<stdout>:`` (version 5 with a blank behind it) and a date before it where asked to, Horovod's
own launcher ``[0]<stdout>:``, ``srun -l`` ``0: ``. Services that keep logs add a stamp of theirs.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LONGEST = 65_536
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DATE = r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4})"
_TAG = re.compile(rf"{_DATE}?\[(?:\d+,)?(?:mpirank:)?(\d{{1,7}})(?:,[\w-]+)?\]<(?:stdout|stderr)>:")
# Horovod's lists of stalled ranks look alike: `1: [name, name]`.
_SRUN_TAG = re.compile(r"^ {0,3}(\d{1,5}): (?!\[(?!\d{4}-\d\d-|[TDIWEF] ))")
_SERVICE_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z| UTC)? [\w.-]+ -- ")


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """One line as its process printed it; ``rank`` is that of the launcher's tag."""

    number: int
    text: str
    rank: int | None


def printed_lines(path: Path) -> Iterator[PrintedLine]:
    """The lines of a text file, whatever bytes it holds; ``.gz`` is decompressed.

    A line that is longer than 64 KiB comes in pieces of that size with the same number, so that
    memory stays bounded. A carriage return ends a piece too: progress bars draw over themselves.

    Raises:
        OSError: The file cannot be read.
        EOFError, zlib.error: A compressed file is damaged.
    """
    with _opened(path) as stream:
        number = 1
        while piece := stream.readline(_LONGEST):
            text = piece.decode("utf-8", errors="replace")
            for part in _pieces(text):
                yield unwrapped(part, number)
            number += piece.endswith(b"\n")


def unwrapped(text: str, number: int = 1) -> PrintedLine:
    """A line without terminal colours and the tags of launchers, at its start and inside it."""
    rank = None
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "<std" in text:
        text = _SERVICE_STAMP.sub("", text)
        first = _TAG.search(text)
        if first:
            rank = int(first.group(1))
            behind = _TAG.sub("", text[first.end() :])
            # Open MPI 5 puts a blank behind its tag.
            text = text[: first.start()].strip() + behind.removeprefix(" ")
    else:
        tag = _SRUN_TAG.match(text)
        if tag:
            rank = int(tag.group(1))
            text = text[tag.end() :]
    return PrintedLine(number, text, rank)


def _pieces(text: str) -> list[str]:
    text = text.rstrip("\r\n")
    return text.split("\r") if "\r" in text else [text]


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else path.open("rb")  # type: ignore[return-value]
