"""Texts in Markdown that end no table and start no markup.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import re
from collections.abc import Callable, Iterable

from hvdprof.plain_text import printable

_IN_BACKTICKS = re.compile(r"`([^`]*[^`\s][^`]*)`")
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#"})


def escaped(text: str) -> str:
    """A text as it is: names of scripts and hosts may hold anything."""
    return printable(" ".join(text.splitlines())).translate(_SPECIAL)


def with_code(text: str, escape: Callable[[str], str] = escaped) -> str:
    """A text whose commands in backticks stay code, so that they can be copied from the raw file.

    Not for cells of tables, which a ``|`` in code would divide.

    Args:
        text: The text.
        escape: What becomes of the rest.
    """
    return "".join(
        f"`{printable(' '.join(piece.split()))}`" if number % 2 else escape(piece)
        for number, piece in enumerate(_IN_BACKTICKS.split(text))
    )


def table_row(cells: Iterable[str]) -> str:
    """A row of a table, its texts escaped."""
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"
