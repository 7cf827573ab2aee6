"""What jobs print, line by line: log prefixes of launchers taken off, memory bounded.

Tags of launchers and services that keep logs stand before a line, or inside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvdprof.ingest.text.hydra_prefixes import HydraPieces
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.text.text_lines import line_blocks
from hvdprof.rundir.log_prefixes import SRUN_TAG, TAG, without_colours

_SERVICE_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z| UTC)? [\w.-]+ -- ")


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """One line as its process printed it; ``rank`` is that of the launcher's tag."""

    number: int
    text: str
    rank: int | None


def printed_lines(path: Path, *, progress: Progress | None = None) -> Iterator[PrintedLine]:
    """The lines of a text file of any bytes, compressed or not.

    A line that is longer than 64 KiB comes in pieces of that size with the same number, so that
    memory stays bounded. A carriage return ends a piece too: progress bars draw over themselves.
    All lines of the first megabyte decide whether Hydra tagged them.

    Args:
        path: The file; gzip and zstd are recognised by content.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        BrokenEndError: The compressed data ends early; raised after all lines before that.
        OSError: The file cannot be read.
    """
    number = 1
    hydra: HydraPieces | None = None
    for place, (lines, ended) in enumerate(line_blocks(path, progress=progress)):
        if place == 0:
            hydra = HydraPieces.of_file([without_colours(line) for line in lines])
        for line in lines:
            if hydra is None:
                yield from (without_prefixes(part, number) for part in _pieces(line))
            else:
                rank, text = hydra.take(without_colours(line))
                yield from (PrintedLine(number, part, rank) for part in _pieces(text))
            number += 1
        number -= not ended
    for rank, text in hydra.rest() if hydra else ():
        yield PrintedLine(number - 1, text, rank)


def without_prefixes(text: str, number: int = 1) -> PrintedLine:
    """A line without terminal colours and the tags of launchers, at its start and inside it."""
    rank = None
    text = without_colours(text)
    if "<std" in text:
        text = _SERVICE_STAMP.sub("", text)
        first = TAG.search(text)
        if first:
            rank = int(first.group(1))
            behind = TAG.sub("", text[first.end() :])
            # Open MPI 5 puts a blank after its tag.
            text = text[: first.start()].strip() + behind.removeprefix(" ")
    else:
        tag = SRUN_TAG.match(text)
        if tag:
            rank = int(tag.group(1))
            text = text[tag.end() :]
    return PrintedLine(number, text, rank)


def _pieces(text: str) -> list[str]:
    text = text.rstrip("\r")
    return text.split("\r") if "\r" in text else [text]
