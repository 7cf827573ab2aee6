"""Where the value ends that follows the name of a secret: in doubt later than it might.

Values are quoted strings, JSON-like structures, words of a shell, the rest of a line with the
lines below it that are indented deeper, or whole arguments. NUL separates the arguments of a
command.

Tested in ``tests/rundir/test_masking.py``.
"""

import re
from enum import Enum


class Style(Enum):
    """What ends a value that is neither a string nor a structure."""

    ARGUMENT = "\0"
    ELEMENT = "</"
    HEADER = "the line: ``Cookie: a=1; b=2``"
    LINE = "the line, or the next name: ``token: a b, lr: 1``"
    ITEM = "a comma, as in JSON"
    WORD = "a blank, or what separates commands, query parameters and settings"


_OPENING, _CLOSING = "[({", "])}"
_MARKS = "\"'`"
_PLAIN = re.compile(rf"[^\s\0\\{_MARKS}\[({{\])}},;&|]+")
_ESCAPES = re.compile(rf"(\\*)([{_MARKS}]?)")
_IN_STRUCTURE = re.compile(rf"(?<!\\)\\*[{_MARKS}]|[\[({{\])}}]")
_MARK = {mark: re.compile(rf"(?<!\\)\\*{mark}") for mark in _MARKS}
_NEW_NAME = r"\s*(?:\\*[\"'])?[\w.\-][\w.\- ]{0,60}(?:\\*[\"'])?\s*[:=]"
_STOPS = {
    Style.HEADER: re.compile(r"[\n\0]"),
    Style.LINE: re.compile(rf"[\n\0]|[,;]{_NEW_NAME}"),
    Style.ITEM: re.compile(r"[,;\n\0]"),
    Style.WORD: re.compile(
        rf"[\s\0]|,{_NEW_NAME}|;(?=[\s\0;\"']|\Z|{_NEW_NAME})|&(?=[\s\0&;\"']|\Z|{_NEW_NAME})"
        r"|\|(?=[\s|])"
    ),
}
_AFTER_A_STRING = re.compile(r"[ \t]*(?:[,;\])}#&|\n\0]|\Z)")
_AFTER_THE_LAST = re.compile(rf"[\s\0,;&|\])}}:{_MARKS}]|\Z")
_BEFORE_A_KEY = re.compile(r"[ \t]*(?:-[ \t]+)*[\"']?")


class Values:
    """The values in one text, asked for in the order of their names."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._first = {
            closing: text.find(opening) if opening in text else len(text)
            for opening, closing in zip(_OPENING, _CLOSING, strict=True)
        }
        self._looked = self._line = 0
        self._limit = -1
        self._is_odd = dict.fromkeys(_MARKS, False)

    def end(self, name: int, start: int, style: Style, quote: str) -> int:
        """Where the value ends.

        Args:
            name: Where its name begins.
            start: Where it begins itself.
            style: What ends it.
            quote: The quotation mark before the name, where none is behind it.
        """
        self._look(name)
        text = self._text
        if self._limit < start:
            self._limit = _find(text, "\0", start, len(text))
        if style in (Style.ARGUMENT, Style.ELEMENT):
            return _find(text, style.value, start, self._limit)
        limit = self._limit
        if quote:
            limit = _string_end(text, quote, start, limit)
            if text.startswith(quote, limit - len(quote), limit):
                limit = max(start, limit - len(quote))
        end = self._parts_end(name, start, limit, style)
        return self._block_end(name, end, limit) if style in (Style.HEADER, Style.LINE) else end

    def _look(self, name: int) -> None:
        """Look at the text up to a name: where its line begins, and which strings are open."""
        text, since = self._text, self._looked
        argument = text.rfind("\0", since, name) + 1
        self._line = max(self._line, argument, text.rfind("\n", since, name) + 1)
        for mark in _MARKS:
            is_odd = text.count(mark, max(since, argument), name) % 2 == 1
            self._is_odd[mark] = is_odd if argument else is_odd != self._is_odd[mark]
        self._looked = max(since, name)

    def _parts_end(self, name: int, start: int, limit: int, style: Style) -> int:
        if start >= limit or _STOPS[style].match(self._text, start, limit):
            return start
        position, is_whole = _part_end(self._text, start, limit, is_first=True)
        is_over = is_whole and _AFTER_A_STRING.match(self._text, position, limit)
        if is_over and style is not Style.WORD:
            return position
        if style is Style.HEADER:
            return _find(self._text, "\n", start, limit)
        while position < limit and not self._stops(name, position, limit, style, is_whole):
            position, is_whole = _part_end(self._text, position, limit, is_first=False)
        return position

    def _stops(
        self, name: int, position: int, limit: int, style: Style, after_string: bool
    ) -> bool:
        if _STOPS[style].match(self._text, position, limit):
            return True
        char = self._text[position]
        if char in _CLOSING:
            return self._first[char] < name
        # The mark that closes what was opened before the name, no part such as in a"b c".
        return (
            char in _MARKS
            and (style is Style.WORD or after_string)
            and self._is_odd[char]
            and bool(_AFTER_THE_LAST.match(self._text, position + 1, limit))
        )

    def _block_end(self, name: int, end: int, limit: int) -> int:
        """The end of the lines below that are indented deeper than a name that begins its line."""
        text = self._text
        if not _BEFORE_A_KEY.fullmatch(text, self._line, name):
            return end
        indent = name - self._line
        while end < limit and text[end] == "\n":
            following = _find(text, "\n", end + 1, limit)
            line = text[end + 1 : following]
            body = line.lstrip(" \t")
            depth = len(line) - len(body)
            if body and (depth < indent or (depth == indent and not body.startswith("- "))):
                break
            end = following
        return end


def _part_end(text: str, start: int, limit: int, *, is_first: bool) -> tuple[int, bool]:
    """The end of a part of a value, and whether it is a string or a structure."""
    if plain := _PLAIN.match(text, start, limit):
        return plain.end(), False
    if text[start] in _OPENING:
        return _structure_end(text, start, limit), True
    escapes = _ESCAPES.match(text, start, limit)
    slashes, mark = escapes.groups() if escapes else ("", "")
    after = start + len(slashes)
    if mark and (is_first or len(slashes) % 2 == 0):
        if text.startswith(mark * 3, after):
            return min(limit, _find(text, mark * 3, after + 3, limit) + 3), True
        opening = slashes + mark if is_first else mark
        return _string_end(text, opening, after + 1, limit), True
    if slashes:
        return min(limit, after + len(slashes) % 2), False
    return start + 1, False


def _string_end(text: str, opening: str, start: int, limit: int) -> int:
    """The end of a string: its mark behind as many backslashes as at its begin, not escaped."""
    for closing in _MARK[opening[-1]].finditer(text, start, limit):
        extra = len(closing[0]) - len(opening)
        if extra >= 0 and extra % (2 * len(opening)) == 0:
            return closing.end()
    return limit


def _structure_end(text: str, start: int, limit: int) -> int:
    depth, position = 0, start
    while found := _IN_STRUCTURE.search(text, position, limit):
        position = found.end()
        if found[0][-1] in _MARKS:
            position = _string_end(text, found[0], position, limit)
        else:
            depth += 1 if found[0] in _OPENING else -1
        if depth == 0:
            return position
    return limit


def _find(text: str, wanted: str, start: int, limit: int) -> int:
    found = text.find(wanted, start, limit)
    return limit if found < 0 else found
