"""Bars of tqdm: jobs draw them by the thousand, so a block of lines is read at once.

RE2 (through Arrow) splits the lines. What stands before a bar is read once for all bars that have
it. Other bars come one by one, and give the same.

Tested in ``tests/ingest/rates/test_bars.py``.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hvdprof.ingest.rates.formats import TQDM, tool_of_bar
from hvdprof.ingest.storage.row_buffer import MISSING, Packed
from hvdprof.ingest.text.found_lines import Patterns
from hvdprof.ingest.text.line_filter import any_of, as_lines
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines
from hvdprof.model.arrays import Int64s

# Narrower than what tqdm may write: no mark of another format has room in it.
_BAR = (
    r"^(?P<head>[^%]*?) *(?:[0-9]{1,9}%\|[^|A-Za-z'\":\n]*\| *(?P<n>[0-9]{1,18})/[0-9]+ |[0-9]+it )"
    r"\[[0-9:]+(?P<left><[0-9:?]+)?, *(?P<rate>[0-9]{1,9}(?:\.[0-9]{1,9})?|\?)(?P<unit>it/s|s/it)"
    r"[\],][^<\r\n]*[\r\n]*$"
)
_MARKS = (b"it/s", b"s/it")
_OF_OTHERS = (b"v_num=", b"reduced_train_loss=")
"""Lightning and NeMo, whose bars look alike, write one of these somewhere in the line."""

_MAY_CONTINUE = re.compile(r"\s*(?:epoch|train)|\s*[^\S ]", re.IGNORECASE).match
"""How a line begins that is no bar by itself, but may be one with the next."""

_FEWEST = 16
_LONGEST = 4096


class Bar(NamedTuple):
    """One draw; ``rate`` in iterations per second or, where ``in_seconds``, seconds of one."""

    line: int
    rank: int | None
    iteration: int
    rate: float
    in_seconds: bool


class BarColumns(NamedTuple):
    """Bars that state a rate, at once: the rank and unit of each form, and the form of each bar."""

    forms: list[tuple[int | None, bool]]
    form: Int64s
    numbers: dict[str, Packed]

    @classmethod
    def of(cls, bars: Sequence[Bar], units: float) -> Self | None:
        """The numbers of PRINTED_RATES, with so many units of an iteration in seconds."""
        timed = [bar for bar in bars if bar.rate or not bar.in_seconds]
        if not timed:
            return None
        lines, ranks, iterations, rates, in_seconds = zip(*timed, strict=True)
        place_of: dict[tuple[int | None, bool], int] = {}
        form = [
            place_of.setdefault(key, len(place_of)) for key in zip(ranks, in_seconds, strict=True)
        ]
        rate, is_time = np.array(rates), np.array(in_seconds)
        # Times of more than 2**62 ns, of which the reader makes no row.
        step = np.minimum(np.rint(np.where(is_time, rate, 0) * 1e9), 2.0**62).astype(np.int64)
        numbers = {
            "line": np.array(lines),
            "iteration": np.array(iterations),
            "rate": np.divide(units, rate, where=is_time, out=rate.copy()),
            "step_ns": np.where(is_time, step, MISSING),
        }
        return cls(list(place_of), np.array(form), numbers)


class Bars:
    """Keeps the first bar of each iteration: one is drawn again when something else is written.

    Args:
        own: The pattern of the lines that are wanted for rates.
    """

    def __init__(self, own: str) -> None:
        self.drawn: list[Bar] = []
        self._own = own
        self._looked_at: tuple[Part | None, str] = None, ""
        self._found: dict[int, Bar | None] = {}
        self._places: list[int] = []
        self._others: list[int] = []

    def keep(self, bars: Iterable[Bar | None]) -> None:
        """Keep those of further iterations; None shows no rate."""
        drawn = self.drawn
        for bar in bars:
            if bar and not (drawn and drawn[-1].iteration == bar.iteration):
                drawn.append(bar)

    def read_ahead(self, part: Part, place: int, wanted: str, patterns: Patterns) -> int:
        """Read bars from a place on, up to the next line that another reader wants, as ``Ahead``.

        Args:
            part: The lines.
            place: The first that is looked at.
            wanted: Finds what any reader wants.
            patterns: What each reader wants.
        """
        if not isinstance(part, UntouchedLines):
            return place
        if (part, wanted) != self._looked_at:
            self._looked_at = part, wanted
            # Looking for what is wanted takes ten times as long as looking for bars.
            has_mark = any(mark in part.block.data for mark in _MARKS)
            found = part.places(wanted) if has_mark else np.empty(0, dtype=np.int64)
            self._found = self._split(part, found, patterns) if len(found) >= _FEWEST else {}
            self._places = list(self._found)
            self._others = [place for place in found.tolist() if place not in self._found]
        if place not in self._found:
            return place
        after = bisect_left(self._others, place)
        end = self._others[after] if after < len(self._others) else len(part)
        run = self._places[bisect_left(self._places, place) : bisect_left(self._places, end)]
        self.keep([self._found[place] for place in run])
        return end

    def _split(
        self, part: UntouchedLines, found: Int64s, patterns: Patterns
    ) -> dict[int, Bar | None]:
        """By place, bars that no other reader wants; None for one without a rate that counts."""
        block = part.block
        if any(text in block.data for text in _OF_OTHERS):
            return {}
        others = any_of(tuple(pattern for pattern in patterns if pattern != self._own))
        lines = as_lines(block.data, block.bounds).take(pa.array(found))
        split = pc.extract_regex(lines, _BAR)
        is_bar = split.is_valid().to_numpy(zero_copy_only=False)
        is_bar &= np.diff(block.bounds)[found] < _LONGEST
        is_bar &= ~np.asarray(pc.match_substring_regex(lines, others))
        columns = (column.to_pylist() for column in split.filter(pa.array(is_bar)).flatten())
        seen: dict[tuple[object, ...], tuple[bool, int | None]] = {}
        bars: dict[int, Bar | None] = {}
        for place, head, n, left, rate, unit in zip(found[is_bar].tolist(), *columns, strict=True):
            # Where a line is drawn over, its log prefix stands before the first draw alone.
            has_rate = bool(n and left and rate != b"?")
            form = head, part.prefix_of[place], has_rate
            if form not in seen:
                seen[form] = self._seen(part, place, has_rate)
            is_known, rank = seen[form]
            if is_known:
                line = part.numbers[place]
                bars[place] = (
                    Bar(line, rank, int(n), float(rate), unit == b"s/it") if has_rate else None
                )
        return bars

    def _seen(self, part: UntouchedLines, place: int, has_rate: bool) -> tuple[bool, int | None]:
        """Whether a line is what its form says, and its rank."""
        line = part.line(place)
        if line is None or (not has_rate and _MAY_CONTINUE(line.text)):
            return False, None
        return tool_of_bar(line.text) == (TQDM if has_rate else ""), line.rank
