"""What jobs print, line by line: log prefixes taken off, memory bounded."""

from collections.abc import Iterator
from pathlib import Path

from hvdprof.ingest.text.log_lines import LogLines, PrintedLine
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.text.text_lines import line_blocks


def printed_lines(path: Path, *, progress: Progress | None = None) -> Iterator[PrintedLine]:
    """The lines of a text file of any bytes, compressed or not, without any log prefix.

    Args:
        path: The file; gzip and zstd are recognised by content.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        BrokenEndError: The compressed data ends early; raised after all lines before that.
        OSError: The file cannot be read.
    """
    return (line.without_inner_tags() for line in tagged_lines(path, progress=progress))


def tagged_lines(path: Path, *, progress: Progress | None = None) -> Iterator[PrintedLine]:
    """The same with the tags of launchers inside lines: they show where two writers mixed.

    A line that is longer than 64 KiB comes in pieces of that size with the same number, so that
    memory stays bounded. A carriage return ends a piece too: progress bars draw over themselves.
    All lines of the first megabyte decide which prefixes the file has.
    """
    number = 1
    log = LogLines()
    for place, (lines, ended) in enumerate(line_blocks(path, progress=progress)):
        if place == 0:
            log = LogLines.of_file(lines)
        for raw in lines:
            line = log.take(number, raw.rstrip("\r"))
            if line is not None:
                yield from _pieces(line)
            number += 1
        number -= not ended
    yield from log.rest()


def _pieces(line: PrintedLine) -> Iterator[PrintedLine]:
    if "\r" not in line.text:
        yield line
        return
    yield from (line._replace(text=part) for part in line.text.split("\r"))
