r"""Text that comes from files, as it may stand in a terminal, a message or a page.

Control characters move the cursor, hide lines or set the title of a terminal; marks of direction
let text appear in another order than it is read. They are shown as escapes such as ``\x1b``.
"""

import re

_UNPRINTABLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
)
_IN_A_LINE = re.compile(rf"[\t\n{_UNPRINTABLE}]")
_IN_LINES = re.compile(rf"[{_UNPRINTABLE}]")


def printable(text: str) -> str:
    """A text of one line without control characters and what is not UTF-8: shown as escapes."""
    return _IN_A_LINE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: newlines and tabs stay."""
    return _IN_LINES.sub(_escaped, text)


def shortened(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters: names differ at their ends, so the middle goes."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    # A byte that is not UTF-8 stands as U+DC80 to U+DCFF (PEP 383).
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
