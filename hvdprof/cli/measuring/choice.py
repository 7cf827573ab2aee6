"""Options that several commands have: ``--format``, ``--price`` and ``--margin``."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

import typer

from hvdprof.errors import UsageError

Kind = TypeVar("Kind", bound=StrEnum)


def format_option(
    known: Sequence[StrEnum], help_: str, *, show_default: bool = False, panel: str | None = None
) -> object:
    """What typer reads as the option ``--format`` of a command that writes some formats.

    Args:
        known: The formats.
        help_: The help of the option.
        show_default: Whether the help names the default.
        panel: The panel of the help that lists the option.
    """
    return typer.Option(
        "--format",
        parser=parse_format(known),
        metavar="|".join(known),
        help=help_,
        show_default=show_default,
        rich_help_panel=panel,
    )


def price_option() -> object:
    """What typer reads as the option ``--price`` of a command that shows verdicts."""
    return typer.Option(
        "--price",
        metavar="PER_HOUR",
        help="Price of a GPU per hour, of a rank where ranks compute on none: the verdict says "
        "what the largest loss costs. That of the run, else HVDPROF_PRICE, when not given.",
        show_default=False,
    )


def parse_format(known: Sequence[Kind]) -> Callable[[str], Kind]:
    """A parser of the names of some formats.

    The parser raises ``UsageError`` with the known names for any other text.
    """

    def parse(text: str) -> Kind:
        for kind in known:
            if kind == text:
                return kind
        raise UsageError(f"--format {text}: not known.", hint=f"Known: {', '.join(known)}")

    return parse


def margin_of(text: str) -> float:
    """The share that ``--margin`` gives as a percentage.

    Raises:
        UsageError: It is no percentage.
    """
    try:
        return float(text.strip().removesuffix("%").strip()) / 100
    except ValueError:
        raise UsageError(f"--margin {text!r} is not a percentage.", hint="--margin 2%") from None
