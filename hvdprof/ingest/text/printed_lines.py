"""What jobs print, line by line: log prefixes taken off, memory bounded.

A reader says which lines it wants next. All others are skipped without being touched one by one.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hvdprof.ingest.text.found_lines import FEWEST_SEARCHED, FoundLines, Patterns
from hvdprof.ingest.text.line_filter import EVERY_LINE, matching, matching_texts
from hvdprof.ingest.text.log_lines import JSON_TEXTS, LogLines, PrintedLine
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.text.text_lines import LONGEST, TextBlock, text_blocks
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.failures.log_prefixes import has_escape, without_colours

Wanted = Callable[[], str]
"""Gives the pattern of the lines that are wanted next; empty for every line."""

Ahead = Callable[["Part", int], int]
"""Reads lines from a place on; returns the place behind them, the same where it reads none."""

_MOST_LINES = 2000
_LONGEST_READ = 4 << 20
"""Of a line without any break, so many bytes are read."""

_OF_NCCL = re.compile(rb"[NR]CCL (?:INFO|WARN|TRACE|CALL) ")
_MOST_OF_NCCL = 5_000
"""So many bytes are left of a line of NCCL's that is longer than 64 KiB; its reader takes 4 kB."""

_ESCAPES = ((b"\x1b", b""), (b"^", b"^[["), (b"#", b"#033["))
"""How colours begin; a byte is found ten times as fast as a text, and these are rare."""

# Records of JSON with a line, and parts of lines: what a line says depends on others.
_RECORD, _TEXTS = b'{"', [f'"{name}"'.encode() for name in JSON_TEXTS]
_PARTS = (b"stdout P", b"stderr P")


def every_line() -> str:
    """Wants all lines."""
    return EVERY_LINE


def printed_lines(
    path: Path, wanted: Wanted = every_line, *, progress: Progress | None = None
) -> Iterator[PrintedLine]:
    """The lines of a text file of any bytes, compressed or not, without any log prefix.

    Args:
        path: The file; gzip and zstd are recognised by content.
        wanted: Asked before each line for what it must hold. Further lines may come.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        BrokenEndError: The compressed data ends early; raised after all lines before that.
        OSError: The file cannot be read.
    """
    return (line.without_inner_tags() for line in LogFile(path, progress).lines(wanted))


class LogFile:
    """A file of lines with log prefixes, read once.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Attributes:
        num_lines: Lines read so far.
        is_cut: What was read so far ends within a line.
        notes: Clauses on what was not read.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.num_lines = 0
        self.is_cut = False
        self.notes: list[Note] = []
        self._path, self._progress = path, progress
        self._length = 0
        self._skips_rest = False
        self._found: FoundLines | None = None

    def lines(
        self, wanted: Wanted = every_line, ahead: Ahead | None = None
    ) -> Iterator[PrintedLine]:
        """As ``printed_lines``, with the tags of launchers inside lines.

        A line that is longer than 64 KiB comes in pieces of that size with the same number, so that
        memory stays bounded. A carriage return ends a piece too: progress bars draw over
        themselves. Of such a line of NCCL's the beginning comes alone. The first 2000 lines decide
        which prefixes the file has. Lines that ``ahead`` reads do not come.
        """
        log, number = LogLines(), 1
        for position, raw in enumerate(text_blocks(self._path, progress=self._progress)):
            self.is_cut = not raw.data.endswith(b"\n")
            shortened, num_skipped = self._without_rests(raw)
            number += num_skipped
            if not shortened.data:
                continue
            block = _without_escapes(shortened)
            if position == 0:
                first = range(min(len(block), _MOST_LINES))
                log = LogLines.of_file([block.text(index).rstrip("\r") for index in first])
            first_of_block, self.num_lines = number, number + int(block.places[-1])
            number = self.num_lines + block.ended
            if not self._is_endless(block):
                yield from self._chosen(_part(block, first_of_block, log), wanted, ahead)
        self._found = None
        yield from log.rest()

    def takers(self, patterns: Patterns) -> Sequence[int]:
        """Which of some readers want the line that was given last; all where the lines are few.

        Args:
            patterns: What each of them wants, as of ``wanted``.
        """
        return range(len(patterns)) if self._found is None else self._found.takers(patterns)

    def _chosen(
        self, part: "Part", wanted: Wanted, ahead: Ahead | None = None
    ) -> Iterator[PrintedLine]:
        found = FoundLines(part)
        pattern, is_searched, places, place, after = EVERY_LINE, False, list[int](), 0, 0
        while place < len(part):
            before, pattern = pattern, wanted()
            is_searched &= pattern is before
            if not is_searched:
                # Where all of a part is read ahead, nothing is looked for in it.
                if ahead is not None and (behind := ahead(part, place)) > place:
                    place = behind
                    continue
                places, is_searched = found.places(pattern) if pattern else [], True
                after = bisect_left(places, place)
            if pattern:
                if after == len(places):
                    return
                place, after = places[after], after + 1
            if ahead is not None and (behind := ahead(part, place)) > place:
                place, after = behind, bisect_left(places, behind)
                continue
            line = part.line(place)
            if line is not None:
                found.place = place
                self._found = None if "\r" in line.text else found
                yield from self._drawn(line, wanted) if "\r" in line.text else (line,)
            place += 1

    def _drawn(self, line: PrintedLine, wanted: Wanted) -> Iterator[PrintedLine]:
        """The draws of a bar over itself: many of them are a part of their own."""
        draws = [line._replace(text=piece) for piece in line.text.split("\r")]
        return self._chosen(_Read(draws), wanted) if len(draws) >= FEWEST_SEARCHED else iter(draws)

    def _without_rests(self, block: TextBlock) -> tuple[TextBlock, int]:
        """A block without the rest of NCCL's lines of over 64 KiB, and how many lines that ends."""
        has_pieces = not block.ended or len(block) > int(block.places[-1]) + 1
        if b"\r" in block.data or not (self._skips_rest or has_pieces):
            self._skips_rest = False
            return block, 0
        lines = block.data.splitlines(keepends=True)
        num_skipped = 0
        if self._skips_rest:
            num_skipped = int(lines.pop(0).endswith(b"\n"))
            self._skips_rest = not (num_skipped or block.ended)
        for place, line in enumerate(lines):
            if len(line) > LONGEST and _OF_NCCL.search(line, 0, _MOST_OF_NCCL):
                is_whole = line.endswith(b"\n")
                lines[place] = line[:_MOST_OF_NCCL] + b"\n" * is_whole
                self._skips_rest = not (is_whole or block.ended)
        return TextBlock(b"".join(lines), block.ended), num_skipped

    def _is_endless(self, block: TextBlock) -> bool:
        """Whether a block continues a line of which enough has been read."""
        self._length = 0 if block.ended or b"\r" in block.data else self._length + len(block.data)
        if self._length <= _LONGEST_READ:
            return False
        text = f"line {self.num_lines} is longer than 4 MiB; only its beginning is read"
        note = Note(NoteCode.LONG_LINE, text)
        if note not in self.notes:
            self.notes.append(note)
        return True


class Part(Protocol):
    """Lines of a block that can be searched and read one by one."""

    def __len__(self) -> int:
        """How many they are."""

    def places(self, pattern: str, among: list[int] | None = None) -> npt.NDArray[np.int64]:
        """Where those are that a pattern finds, among all or some."""

    def line(self, place: int) -> PrintedLine | None:
        """One line; None where the next continues it."""


class UntouchedLines:
    """Lines whose prefixes are taken off when they are read: most never are.

    Args:
        block: The lines.
        first: The number of the first.
        log: Takes off the prefixes.

    Attributes:
        block, log: As given.
        numbers: The number of each line.
        prefix_of: The line whose log prefix counts for a draw; -1 where it stands in the line.
        is_plain: No line has more log prefixes than it shows itself.
        known_places: What ``places`` gives among all lines, by the patterns searched so far.
    """

    def __init__(self, block: TextBlock, first: int, log: LogLines) -> None:
        self.block, self.log = block, log
        self._has_cr = b"\r" in block.data
        self.known_places: dict[str, npt.NDArray[np.int64]] = {}
        self.numbers: list[int] = (block.places + first).tolist()
        self.prefix_of = np.full(len(block), -1)
        self.is_plain = log.is_plain

    def __len__(self) -> int:
        """How many they are."""
        return len(self.block)

    def places(self, pattern: str, among: list[int] | None = None) -> npt.NDArray[np.int64]:
        """Where those are that a pattern finds, among all or some."""
        if among is not None:
            return matching(self.block.data, self.block.bounds, pattern, among)
        if pattern not in self.known_places:
            self.known_places[pattern] = matching(self.block.data, self.block.bounds, pattern)
        return self.known_places[pattern]

    def line(self, place: int) -> PrintedLine | None:
        """One line; None where the next continues it."""
        text = self.block.text(place)
        return self.log.take(self.numbers[place], text.rstrip("\r") if self._has_cr else text)


class _DrawnOver(UntouchedLines):
    """Lines that bars draw over: each draw is searched and read for itself."""

    def __init__(self, block: TextBlock, first: int, log: LogLines) -> None:
        super().__init__(block.by_draws(), first, log)
        self._whole, bounds = block, self.block.bounds
        self._lines = (np.searchsorted(block.bounds, bounds[:-1], side="right") - 1).tolist()
        self._ends = np.searchsorted(bounds, block.bounds[1:]).tolist()
        self.prefix_of = np.where(np.isin(bounds[:-1], block.bounds), -1, self._lines)
        self._read: tuple[int, PrintedLine | None, list[str]] = -1, None, []

    def line(self, place: int) -> PrintedLine | None:
        """One draw, with what the log prefix of its line says."""
        of = self._lines[place]
        if self._read[0] != of:
            line = self.log.take(self.numbers[place], self._whole.text(of).rstrip("\r"))
            self._read = of, line, list(filter(None, line.text.split("\r"))) if line else []
        _, line, draws = self._read
        # A draw may be all prefix: from the end, draws are where they stand in the file.
        number = place - self._ends[of]
        return line and line._replace(text=draws[number] if -number <= len(draws) else "")


class _Read:
    """Lines that have been put together from several, or out of records."""

    def __init__(self, lines: Sequence[PrintedLine]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def places(self, pattern: str, among: list[int] | None = None) -> npt.NDArray[np.int64]:
        return matching_texts((line.text for line in self._lines), pattern, among)

    def line(self, place: int) -> PrintedLine:
        return self._lines[place]


def _part(block: TextBlock, first: int, log: LogLines) -> Part:
    data = block.data
    untouched = UntouchedLines(block, first, log)
    has_records = b"{" in data and (data.startswith(_RECORD) or b"\n" + _RECORD in data)
    depends = log.joins_lines or (has_records and any(text in data for text in _TEXTS))
    depends |= any(part in data for part in _PARTS)
    if not depends:
        return _DrawnOver(block, first, log) if b"\r" in data else untouched
    return _Read([line for place in range(len(block)) if (line := untouched.line(place))])


def _without_escapes(block: TextBlock) -> TextBlock:
    if not any(byte in block.data and escape in block.data for byte, escape in _ESCAPES):
        return block
    text = block.data.decode("utf-8", "replace")
    if not has_escape(text):
        return block
    return TextBlock(without_colours(text).encode("utf-8", "replace"), block.ended)
