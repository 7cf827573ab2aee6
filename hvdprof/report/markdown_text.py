"""Texts in Markdown that end no table and start no markup.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Iterable

from hvdprof.plain_text import printable

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#"})


def escaped(text: str) -> str:
    """A text as it is: names of scripts and hosts may hold anything."""
    return printable(" ".join(text.splitlines())).translate(_SPECIAL)


def table_row(cells: Iterable[str]) -> str:
    """A row of a table, its texts escaped."""
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"
