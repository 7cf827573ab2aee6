"""Parses the choices of ``--format``: an unknown one is refused as those of other options are."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from hvdprof.errors import UsageError

Kind = TypeVar("Kind", bound=StrEnum)


def parse_format(kind: type[Kind]) -> Callable[[str], Kind]:
    """A parser of the names of an enum.

    The parser raises ``UsageError`` with the known names for any other text.
    """

    def parse(text: str) -> Kind:
        if text not in set(kind):
            raise UsageError(f"--format {text}: not known.", hint=f"Known: {', '.join(kind)}")
        return kind(text)

    return parse
