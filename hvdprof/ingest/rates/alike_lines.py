"""Lines with rates that are alike but for their digits: jobs print them by the thousand.

The first of each form is read by the declared formats. No digit has a say in where a format finds
its numbers, so those of all others are taken from the same places, a block of lines at once.

Tested in ``tests/ingest/rates/test_alike_lines.py``.
"""

import re
from bisect import bisect_left
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hvdprof.ingest.rates.formats import BARS, kinds_of
from hvdprof.ingest.rates.rate_format import STEP, RateFormat, RateLines
from hvdprof.ingest.text.found_lines import Patterns
from hvdprof.ingest.text.line_filter import any_of, as_lines, matching
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines
from hvdprof.model.arrays import Bools, Float64s, Int64s

_SAME_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_OTHER_DIGITS = str.maketrans("0123456789", "1234567890")
# Narrower than what tqdm may write: no mark of another format has room in it.
_BARE_BAR = re.compile(
    r"[^%]*?(?:[0-9]{1,9}%\|[^|A-Za-z'\":]*\| *[0-9]{1,18}/[0-9]+ |[0-9]+it )"
    r"\[[0-9:]+(?:<[0-9:?]+)?, *(?:[0-9]{1,9}(?:\.[0-9]{1,9})?|\?)(?:it/s|s/it)[\],][^<]*$"
)
_MAY_CONTINUE = re.compile(r"\s*(?:epoch|train)|\s*[^\S ]", re.IGNORECASE)
"""How a line begins that is no bar by itself, but may be one with the next."""

_DIGITS_OF_PATTERN = re.compile(
    r"\\x[0-9A-Fa-f]{2}|\\.|\{[0-9,]*\}|(\[\^?(?:\\.|[^\]\\])+\])|([0-9])"
)
_LITERAL_DIGIT = re.compile(r"(?:\\u[0-9]{4}|\[0-9|\{[0-9,]+\})|([0-9])")
_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.([0-9]+))?")
_MOST_DIGITS = 15
"""Numbers of so many digits are whole in a float, and a power of ten divides them as it should."""

_POWERS = np.array([float(f"1e{digits}") for digits in range(_MOST_DIGITS + 1)])
OF_BARS = ("rate", "step", "n")
"""The groups of BARS: each has the last, the first has the first, the second the second."""

_MAY_BE_ZERO = ("n", "spread", "data", "mean_data")
_FEWEST = 16
_LONGEST = 1024
_MOST_FORMS = 10_000

Span = tuple[int, int, int]
"""Where a number begins in a line, its bytes, and how many digits follow its point."""


class _Form(NamedTuple):
    """What lines of one form show: nothing, or the numbers of the groups of a format."""

    kind: RateFormat | None = None
    spans: tuple[Span, ...] = ()
    names: tuple[str, ...] = ()
    rank: Span = (0, 0, 0)


class AlikeLines:
    """Reads lines at once up to the next that is another's, or that no form of rates is.

    Args:
        own: The pattern of the lines that are wanted for rates.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._looked_at: tuple[Part | None, str] = None, ""
        self._forms: dict[tuple[bytes, bool], _Form | None] = {}
        self._is_read: Bools = np.zeros(0, dtype=np.bool_)
        self._others: list[int] = []
        self._found: list[RateLines] = []

    def read_ahead(
        self, part: Part, place: int, wanted: str, patterns: Patterns
    ) -> tuple[int, list[RateLines]]:
        """Read lines from a place on, as ``Ahead``, and give those that show rates.

        Args:
            part: The lines.
            place: The first that is looked at.
            wanted: Finds what any reader wants.
            patterns: What each reader wants.
        """
        if not isinstance(part, UntouchedLines):
            return place, []
        if (part, wanted) != self._looked_at:
            self._looked_at = part, wanted
            self._look_at(part, wanted, patterns)
        if not self._is_read[place]:
            return place, []
        after = bisect_left(self._others, place)
        end = self._others[after] if after < len(self._others) else len(part)
        if np.count_nonzero(self._is_read[place:end]) < _FEWEST:
            return place, []
        found = list[RateLines]()
        for kind, lines in self._found:
            first, behind = np.searchsorted(lines["order"].to_numpy(), (place, end)).tolist()
            found += [(kind, lines.iloc[first:behind])] * (behind > first)
        return end, found

    def _look_at(self, part: UntouchedLines, wanted: str, patterns: Patterns) -> None:
        block, self._found = part.block, []
        self._is_read = np.zeros(len(part), dtype=np.bool_)
        others = any_of(tuple(pattern for pattern in patterns if pattern != self._own))
        forms = suspects = None
        if (part.prefix_of >= 0).any() and of_any_digits(self._own) == self._own:
            # Draws have few forms, so that each is searched once.
            forms = _forms_of(part).dictionary_encode()
            suspects = _of_form(forms, others)
            is_wanted = np.zeros(len(part), dtype=np.bool_)
            is_wanted[_of_form(forms, self._own)] = True
            is_wanted[matching(block.data, block.bounds, others, suspects)] = True
            part.known_places[wanted] = np.flatnonzero(is_wanted)
        found = part.places(wanted)
        is_own = np.diff(block.bounds)[found] < _LONGEST
        # The file may end within its last line.
        is_own &= (found < len(part) - 1) | block.data.endswith(b"\n")
        own = found[is_own]
        if len(own) >= _FEWEST:
            looked_at = own if suspects is None else suspects
            own = np.setdiff1d(own, matching(block.data, block.bounds, others, looked_at), True)
            forms = _forms_of(part) if forms is None else forms
            self._read(part, own, forms.take(pa.array(own)).dictionary_encode())
        self._others = found[~self._is_read[found]].tolist()

    def _read(self, part: UntouchedLines, places: Int64s, coded: pa.DictionaryArray) -> None:
        code = 2 * coded.indices.to_numpy() + (part.prefix_of[places] >= 0)
        first = np.full(2 * len(coded.dictionary), -1)
        first[code[::-1]] = places[::-1]
        alike: dict[object, dict[int, _Form]] = {}
        for number in np.flatnonzero(first >= 0).tolist():
            key = coded.dictionary[number // 2].as_py(), bool(number % 2)
            if (form := self._form(part, int(first[number]), key)) is not None:
                alike.setdefault((form.kind, form.names), {})[number] = form
        for forms in alike.values():
            spans = np.zeros((len(first), 1 + len(forms[min(forms)].names), 3), dtype=np.int64)
            spans[list(forms)] = [(form.rank, *form.spans) for form in forms.values()]
            own = np.isin(code, list(forms))
            self._keep(part, forms[min(forms)], places[own], spans[code[own]])

    def _keep(self, part: UntouchedLines, form: _Form, places: Int64s, spans: Int64s) -> None:
        """Keep the numbers of lines; of those with a 0 that is none of an iteration, none."""
        rank, *numbers = _numbers(part, places, spans)
        is_read = np.ones(len(places), dtype=np.bool_)
        for name, values in zip(form.names, numbers, strict=True):
            is_read &= (values != 0) | (name in _MAY_BE_ZERO) | (form.kind in BARS)
        self._is_read[places[is_read]] = True
        if form.kind is not None:
            rank = np.where(spans[:, 0, 1] == 0, -1, rank)
            # Where a line is drawn over, its log prefix stands before the first draw alone.
            _, first, which = np.unique(part.prefix_of[places], True, True)
            drawn = [line and line.rank for line in map(part.line, places[first].tolist())]
            ranks = np.array([-1 if one is None else one for one in drawn])[which]
            columns = {
                "order": places,
                "line": part.block.places[places] + part.numbers[0],
                "rank": np.where(part.prefix_of[places] < 0, rank, ranks).astype(np.int64),
                **dict(zip(form.names, numbers, strict=True)),
            }
            self._found.append((form.kind, pd.DataFrame(columns)[is_read]))

    def _form(self, part: UntouchedLines, place: int, key: tuple[bytes, bool]) -> _Form | None:
        if key not in self._forms:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[key] = _form_of(part, place, is_draw=key[1])
        return self._forms[key]


@cache
def of_any_digits(pattern: str) -> str:
    """A pattern that finds, with other digits, all that a pattern finds; the same if no more."""

    def widened(found: re.Match[str]) -> str:
        if found[1]:
            return "(?s:.)" if re.search("[0-9]", found[1].replace("0-9", "")) else found[0]
        return "[0-9]" if found[2] else found[0]

    return _DIGITS_OF_PATTERN.sub(widened, pattern)


def _forms_of(part: UntouchedLines) -> pa.BinaryArray:
    return as_lines(part.block.data.translate(_SAME_DIGITS), part.block.bounds)


def _of_form(forms: pa.DictionaryArray, pattern: str) -> Int64s:
    """The places of the lines whose form a pattern may find with any digits."""
    found = pc.match_substring_regex(forms.dictionary, of_any_digits(pattern))
    is_found = found.to_numpy(zero_copy_only=False)
    return np.flatnonzero(is_found[forms.indices.to_numpy()])


def _form_of(part: UntouchedLines, place: int, *, is_draw: bool) -> _Form | None:
    """What a line shows that all lines of its form do; None where it is to be read by itself."""
    raw, line = part.block.text(place).rstrip("\r"), part.line(place)
    # Behind `<14>1 ` follows a prefix, and none behind `<14>2 `.
    if line is None or not raw.endswith(line.text) or raw.startswith("<") or "\ufffd" in raw:
        return None
    text, prefix = line.text, raw[: len(raw) - len(line.text)]
    rank: Span | None = (0, 0, 0)
    if line.rank is not None and not is_draw:
        rank = _rank_span(part, line, prefix)
    if rank is None or "<std" in text or " NCCL " in text or "\r" in text:
        return None
    kinds = kinds_of(text)
    for kind in kinds:
        found = list(kind.pattern.finditer(text))
        digits = _LITERAL_DIGIT.finditer(kind.pattern.pattern + kind.mark)
        if len(found) > 1 or any(digit[1] for digit in digits) or (found and kind.scope != STEP):
            return None
        if found:
            names = [name for name, said in found[0].groupdict().items() if said]
            spans = [span for name in names if (span := _span(found[0], name, prefix))]
            return (
                _Form(kind, tuple(spans), tuple(names), rank) if len(spans) == len(names) else None
            )
    is_bar = any(kind in BARS for kind in kinds) and _BARE_BAR.match(text)
    return _Form() if is_bar and not _MAY_CONTINUE.match(text) else None


def _span(found: re.Match[str], name: str, prefix: str) -> Span | None:
    """Where a number stands; None where it is too long or has an exponent."""
    number = _NUMBER.fullmatch(found[name])
    if number is None or len(found[name]) > _MOST_DIGITS:
        return None
    begin = len((prefix + found.string[: found.start(name)]).encode())
    return begin, len(found[name]), len(number[1] or "")


def _rank_span(part: UntouchedLines, line: PrintedLine, prefix: str) -> Span | None:
    """Where the rank stands in a log prefix: the number with which it changes."""
    for number in re.finditer("[0-9]+", prefix):
        own = number[0].translate(_OTHER_DIGITS)
        other = prefix[: number.start()] + own + prefix[number.end() :] + line.text
        taken = part.log.take(line.number, other)
        if taken is not None and taken.rank == int(own) != line.rank:
            return len(prefix[: number.start()].encode()), len(own), 0
    return None


def _numbers(part: UntouchedLines, places: Int64s, spans: Int64s) -> list[Float64s]:
    """The numbers of lines, group by group, with which Python's own floats agree."""
    raw, numbers = np.frombuffer(part.block.data, np.uint8), []
    for begin, width, decimals in np.moveaxis(spans, 0, 2):
        value = np.zeros(len(places), dtype=np.int64)
        first = part.block.bounds[places] + begin
        for place in range(int(width.max(initial=0))):
            digit = raw.take(first + place, mode="clip") - np.uint8(ord("0"))
            value = np.where((digit < 10) & (place < width), 10 * value + digit, value)
        numbers.append(value / _POWERS[decimals])
    return numbers


def bars_of(drawn: pd.DataFrame) -> tuple[int, list[RateLines]]:
    """The number of iterations that bars show, and the first bars of those with a rate.

    Args:
        drawn: OF_BARS, ``line`` and ``rank`` of bars: each is drawn again when others write.
    """
    bars = drawn[drawn["n"] != drawn["n"].shift()].reset_index(drop=True)
    bars = bars.reindex(columns=["line", "rank", *OF_BARS]).assign(order=bars.index)
    # An iteration of 0 s has no rate.
    timed = (bars["rate"].notna(), bars["step"] > 0)
    found = [
        (kind, bars.loc[own, ["order", "line", "rank", "n", name]])
        for kind, name, own in zip(BARS, OF_BARS, timed, strict=False)
        if own.any()
    ]
    return len(bars), found
