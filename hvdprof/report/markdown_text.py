"""Texts in Markdown that end no table and start no markup."""

import re
from collections.abc import Iterable

from hvdprof.plain_text import printable

_IN_BACKTICKS = re.compile(r"`([^`]*[^`\s][^`]*)`")
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|#"})


def escaped(text: str) -> str:
    """A text in one line as it is: names of scripts and hosts may hold anything."""
    return _escaped(_in_one_line(text))


def with_code(text: str) -> str:
    """A text whose commands in backticks stay code, so that they can be copied from the raw file.

    Not for cells of tables, which a ``|`` in code would divide.
    """
    return "".join(
        f"`{printable(piece.strip())}`" if number % 2 else _escaped(piece)
        for number, piece in enumerate(code_pieces(_in_one_line(text)))
    )


def as_code(text: str) -> str:
    """A text in one line as code."""
    shown = printable(_in_one_line(text)).replace("`", "'")
    return f"`{shown}`"


def code_pieces(text: str) -> list[str]:
    """A text divided at its commands in backticks: every second piece is a command."""
    return _IN_BACKTICKS.split(text)


def table_row(cells: Iterable[str]) -> str:
    """A row of a table, its texts escaped."""
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    return printable(text).translate(_SPECIAL)
