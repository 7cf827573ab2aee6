"""The lines of a text file that may be huge, compressed, binary in part, or torn anywhere."""

from collections.abc import Iterator
from pathlib import Path

from hvdprof.ingest.text.text_chunks import Chunks, Progress
from hvdprof.rundir.regular_file import open_regular

LONGEST = 1 << 16
"""Characters after which a line comes in pieces."""

_CHUNK_BYTES = 1 << 20


class BrokenEndError(Exception):
    """The compressed data of a file is cut off or damaged; all lines before that were given."""


def line_blocks(
    path: Path, *, progress: Progress | None = None
) -> Iterator[tuple[list[str], bool]]:
    """The lines of a file without their newlines, some at a time.

    Gzip, zstd, UTF-8 and UTF-16 are recognised by content. At most a few megabytes
    are held at a time: a line that is longer than 64 KiB comes in pieces of that length, so that a
    file without any newline costs no more. Bytes that are not UTF-8 become replacement characters.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Returns:
        Blocks of lines, each with whether its last line ends there; where it does not, the next
        block continues it.

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


def _blocks(pieces: Iterator[bytes]) -> Iterator[tuple[list[str], bool]]:
    rest = b""
    for piece in pieces:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            yield from _ended(_text(whole).split("\n"))
        while len(rest) > LONGEST:
            yield [_text(rest[:LONGEST])], False
            rest = rest[LONGEST:]
    if rest:
        yield [_text(rest)], True


def _ended(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    if max(map(len, lines)) <= LONGEST:
        yield lines, True
        return
    for line in lines:
        for start in range(0, max(len(line), 1), LONGEST):
            yield [line[start : start + LONGEST]], start + LONGEST >= len(line)


def _text(block: bytes) -> str:
    return block.decode("utf-8", errors="replace")
