"""The lines of a text file that may be huge, compressed, binary in part, or torn anywhere."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hvdprof.ingest.text.text_chunks import Chunks, Progress
from hvdprof.rundir.regular_file import open_regular

LONGEST = 1 << 16
"""Bytes after which a line comes in pieces."""

_CHUNK_BYTES = 1 << 20
_NEWLINE = 10
_RETURN = b"\r"


class BrokenEndError(Exception):
    """The compressed data of a file is cut off or damaged; all lines before that were given."""


class TextBlock:
    """Consecutive lines of a file, or pieces of lines that are longer than 64 KiB.

    Args:
        data: The bytes.
        ended: The last line ends there; where it does not, the next block continues it.

    Attributes:
        data: The bytes.
        bounds: Where each line or piece begins, and the end of the last.
        places: For each, the place of its line in the block.
        ended: As given.
    """

    def __init__(self, data: bytes, ended: bool) -> None:
        self.data, self.ended = data, ended
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
        lines = np.concatenate(([0], ends, [len(data)] if not data.endswith(b"\n") else []))
        self.bounds: npt.NDArray[np.int64] = _with_pieces(lines.astype(np.int64), data)
        self.places: npt.NDArray[np.int64] = np.searchsorted(ends, self.bounds[:-1], side="right")
        # Of ASCII, places in bytes are places in the text.
        self._ascii = data.decode("ascii") if data.isascii() else None
        self._bounds: list[int] = self.bounds.tolist()

    def __len__(self) -> int:
        """How many lines and pieces it has."""
        return len(self.places)

    def text(self, index: int) -> str:
        """A line or piece without its newline; bytes that are not UTF-8 are replaced."""
        begin, end = self._bounds[index], self._bounds[index + 1]
        if self._ascii is not None:
            return self._ascii[begin:end].removesuffix("\n")
        piece = self.data[begin:end]
        return piece.removesuffix(b"\n").decode("utf-8", errors="replace")

    def by_draws(self) -> "TextBlock":
        """The same with the draws of bars over themselves as pieces of their own."""
        raw, drawn = np.frombuffer(self.data, np.uint8), copy(self)
        is_next = (raw[:-1] == _RETURN[0]) & (raw[1:] != _RETURN[0]) & (raw[1:] != _NEWLINE)
        begins = np.concatenate(([False], is_next, [False]))
        begins[self.bounds] = True
        drawn.bounds = np.flatnonzero(begins)
        lines = np.searchsorted(self.bounds, drawn.bounds[:-1], side="right") - 1
        drawn.places, drawn._bounds = self.places[lines], drawn.bounds.tolist()
        return drawn


def text_blocks(path: Path, *, progress: Progress | None = None) -> Iterator[TextBlock]:
    """The lines of a file, some at a time.

    Gzip, zstd, UTF-8 and UTF-16 are recognised by content. At most a few megabytes
    are held at a time: a line that is longer than 64 KiB comes in pieces of that length at most,
    cut behind carriage returns where it has some. A file without any newline costs no more.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        BrokenEndError: The compressed data ends early; raised after all lines before that.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    # A text without any byte has no line, and not an empty one.
    if not size:
        return
    with open_regular(path) as source:
        chunks = Chunks(source, size, chunk_bytes=_CHUNK_BYTES, progress=progress)
        yield from _blocks(_pieces(chunks))
    if chunks.broken:
        raise BrokenEndError(chunks.broken)


def _pieces(chunks: Chunks) -> Iterator[bytes]:
    while not chunks.final:
        chunks.more()
        yield chunks.data[: chunks.end].tobytes()
        chunks.forget(chunks.end)


def _blocks(pieces: Iterator[bytes]) -> Iterator[TextBlock]:
    rest = b""
    for piece in pieces:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            yield TextBlock(whole + newline, ended=True)
        if len(rest) > LONGEST:
            # A carriage return that is the last byte may belong to a newline that follows.
            drawn_over = rest.rfind(_RETURN, 0, len(rest) - 1) + 1
            end = drawn_over or (len(rest) - 1) // LONGEST * LONGEST
            yield TextBlock(rest[:end], ended=False)
            rest = rest[end:]
    if rest:
        yield TextBlock(rest, ended=True)


def _with_pieces(bounds: npt.NDArray[np.int64], data: bytes) -> npt.NDArray[np.int64]:
    """The bounds of lines, and of the pieces of those that are too long."""
    # A newline does not count.
    too_long = np.flatnonzero(np.diff(bounds) > LONGEST + 1)
    inner = [cut for i in too_long for cut in _cuts(data, int(bounds[i]), int(bounds[i + 1]) - 1)]
    return np.sort(np.concatenate((bounds, inner))).astype(np.int64) if inner else bounds


def _cuts(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Where a line is cut: behind carriage returns, so that no state of a progress bar is."""
    while end - begin > LONGEST:
        begin = data.rfind(_RETURN, begin, begin + LONGEST) + 1 or begin + LONGEST
        yield begin
