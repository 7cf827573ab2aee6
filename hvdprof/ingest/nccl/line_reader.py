"""How a line is recognised: readers by pattern, and the number of lines of each kind."""

import re
from collections.abc import Callable

import pandas as pd

from hvdprof.ingest.nccl.logbook import Logbook, Message
from hvdprof.model.tables.nccl_call_tables import NCCL_LINE_KINDS

LineReader = Callable[[Logbook, Message], bool]
"""Reads a line into the logbook; False where the line is damaged or of another kind."""

Keep = Callable[[Logbook, Message, re.Match[str]], None]
_DIGITS = re.compile(r"(?:0x)?\d[\da-f]*")
_MOST_KINDS = 2000
_LONGEST_SAMPLE = 400
Key = tuple[str, str, bool]
"""File, kind, and whether the line was understood."""


def reads(pattern: str) -> Callable[[Keep], LineReader]:
    """A reader of the lines that a pattern finds; the decorated function keeps what they say."""
    find = re.compile(pattern).search

    def decorate(keep: Keep) -> LineReader:
        def read(log: Logbook, said: Message) -> bool:
            match = find(said.text)
            if match is not None:
                keep(log, said, match)
            return match is not None

        read.__doc__ = keep.__doc__
        return read

    return decorate


def without_numbers(text: str) -> str:
    """The text with N for every number, decimal or hexadecimal: what lines of a kind share."""
    return _DIGITS.sub("N", text)


class LineKinds:
    """Counts by file, kind and whether the line was understood."""

    def __init__(self) -> None:
        self._counts: dict[Key, list[int]] = {}
        self._samples: dict[Key, str] = {}
        self._names: dict[str, str] = {}

    def count(self, said: Message, understood: bool) -> Key:
        """Count one line; returns where it was counted."""
        key = (said.file, self._name(said), understood)
        counted = self._counts.get(key)
        if counted is None:
            self._counts[key] = [1, said.line]
            self._samples[key] = said.raw[:_LONGEST_SAMPLE]
        else:
            counted[0] += 1
        return key

    def times(self, file: str, word: str) -> int | None:
        """How many lines of level INFO with this first word were understood; None for none."""
        counted = self._counts.get((file, self._names.get(word, ""), True))
        return None if counted is None else counted[0]

    def add(self, file: str, word: str, number: int) -> None:
        """Count further lines of a kind that ``times`` knows."""
        self._counts[file, self._names[word], True][0] += number

    def correct(self, key: Key | None, said: Message) -> None:
        """A line counted as not understood was, once its rest had come."""
        if key is not None:
            self._counts[key][0] -= 1
        self.count(said, True)

    @property
    def num_not_understood(self) -> int:
        """Lines with NCCL's prefix that no reader understood."""
        return sum(counted[0] for key, counted in self._counts.items() if not key[2])

    def frame(self) -> pd.DataFrame:
        """The counts as a frame of ``NCCL_LINE_KINDS``, in order of first appearance."""
        return NCCL_LINE_KINDS.frame(
            [
                {
                    "kind": kind,
                    "understood": understood,
                    "count": count,
                    "sample": self._samples[file, kind, understood],
                    "file": file,
                    "line": line,
                }
                for (file, kind, understood), (count, line) in self._counts.items()
                if count
            ]
        )

    def _name(self, said: Message) -> str:
        if said.level != "INFO":
            return said.level
        name = self._names.get(said.word)
        if name is None:
            if len(self._names) >= _MOST_KINDS:
                return "other"
            name = without_numbers(said.word)[:60]
            self._names[said.word] = name
        return name
