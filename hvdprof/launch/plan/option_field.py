"""A field of an options class: its default, and how the command line gives it.

Tested in ``tests/launch/plan/test_options.py``.
"""

import math
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar, Unpack

T = TypeVar("T")

KEY = "option"


class Bounds(TypedDict, total=False):
    """What can be used; the keys are those of ``Option``."""

    lowest: float
    highest: float
    known: tuple[str, ...]
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field is given on the command line.

    Attributes:
        help: What ``--help`` says.
        panel: The panel of ``--help``.
        flags: The flags, the one that messages name first; those of a switch with a negation as
            ``--trace/--no-trace``. Without any, the field is the command after ``--``.
        lowest: The least number that can be used.
        highest: The largest number that can be used.
        known: The only texts that can be used; empty for any.
        repeated: The flag can be given several times; the field is a tuple.
    """

    help: str
    panel: str
    flags: tuple[str, ...]
    lowest: float | None = None
    highest: float = math.inf
    known: tuple[str, ...] = ()
    repeated: bool = False


def option(default: T, help: str, *flags: str, panel: str, **bounds: Unpack[Bounds]) -> T:
    """A field with its default and its ``Option``."""
    declared = Option(help=help, panel=panel, flags=flags, **bounds)
    return field(default=default, metadata={KEY: declared})
