"""Where the value ends that follows the name of a secret: in doubt later than it might.

NUL separates the arguments of a command. Tested in ``tests/rundir/test_masking.py``.
"""

import re
from enum import Enum


class Style(Enum):
    """What ends a value."""

    ARGUMENT = "\0"
    ELEMENT = "</"
    REST = "its own end for a string or a structure, else that of the argument"
    WORD = "a blank of a shell, or what separates commands, query parameters and settings"


_OPENING = "[({"
_MARKS = "\"'`"
_PLAIN = re.compile(rf"[^\s\0\\{_MARKS}\[({{,;&|]+")
_ESCAPES = re.compile(rf"(\\*)([{_MARKS}]?)")
_IN_STRUCTURE = re.compile(rf"(?<!\\)\\*[{_MARKS}]|[\[({{\])}}]")
_MARK = {mark: re.compile(rf"(?<!\\)\\*{mark}") for mark in _MARKS}
_NEW_NAME = r"\s*(?:\\*[\"'])?[\w.\-][\w.\- ]{0,60}(?:\\*[\"'])?\s*[:=]"
_AFTER_A_WORD = re.compile(
    rf"[\s\0]|,{_NEW_NAME}|;(?=[\s;\"']|\Z|{_NEW_NAME})|&(?=[\s&;\"']|\Z|{_NEW_NAME})|\|(?=[\s|])"
)
_AFTER_A_STRING = re.compile(r"[ \t]*(?:[,;\])}#&|\n]|\Z)")


def value_end(text: str, start: int, limit: int, style: Style, quote: str) -> int:
    """Where the value ends that begins at ``start``.

    Args:
        text: The text.
        start: Where the value begins.
        limit: Where its argument ends.
        style: What ends it.
        quote: The mark of the string that holds name and value; empty where none does.
    """
    if style in (Style.ARGUMENT, Style.ELEMENT):
        return _find(text, style.value, start, limit)
    if quote:
        limit = _string_end(text, quote, start, limit)
        limit -= len(quote) if text.endswith(quote, start, limit) else 0
    if style is Style.REST:
        end, is_whole = _part_end(text, start, limit, is_first=True)
        return end if is_whole and _AFTER_A_STRING.match(text, end, limit) else limit
    end = start
    while end < limit and not _AFTER_A_WORD.match(text, end, limit):
        end, _ = _part_end(text, end, limit, is_first=end == start)
    return end


def _part_end(text: str, start: int, limit: int, *, is_first: bool) -> tuple[int, bool]:
    """The end of a part of a value, and whether that is a whole string or structure."""
    if plain := _PLAIN.match(text, start, limit):
        return plain.end(), False
    if text.startswith(tuple(_OPENING), start, limit):
        return _structure_end(text, start, limit), True
    escapes = _ESCAPES.match(text, start, limit)
    slashes, mark = escapes.groups() if escapes else ("", "")
    after = start + len(slashes)
    if mark and text.startswith(mark * 3, after):
        return min(limit, _find(text, mark * 3, after + 3, limit) + 3), True
    if mark and (is_first or len(slashes) % 2 == 0):
        return _string_end(text, slashes + mark if is_first else mark, after + 1, limit), True
    return min(limit, max(start + 1, after + len(slashes) % 2)), False


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
