"""Tables and texts in a terminal that are never cut: a number that is cut is a wrong number."""

import textwrap
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof.report.finding_texts import each_sentence

_UNBOUNDED = 10_000

_NARROWEST = 40


def frame_of(*columns: tuple[str, Literal["left", "right"]]) -> Table:
    """A table of columns, each with the side to which it is aligned."""
    frame = Table(
        box=box.HORIZONTALS,
        show_edge=False,
        pad_edge=False,
        border_style="dim",
        padding=(0, 1, 0, 0),
    )
    for name, justify in columns:
        frame.add_column(name, justify=justify, no_wrap=True, header_style="none")
    return frame


def print_whole(console: Console, frame: Table) -> None:
    """Print a table at its own width, also where the console is narrower."""
    width = console.width
    console.width = max(width, natural_width(console, frame))
    console.print(frame)
    console.width = width


def natural_width(console: Console, frame: Table) -> int:
    """The characters that a table takes where nothing is cut or wrapped."""
    unbounded = console.options.update(width=_UNBOUNDED, max_width=_UNBOUNDED)
    return console.measure(frame, options=unbounded).maximum


def print_blocks(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print one block a row, one line a column, for tables that are too wide."""
    width = max(map(len, names), default=0)
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, text in zip(names, row, strict=True):
            print_hanging(console, f"  {name.ljust(width)}  ", text)


def print_verdict(console: Console, lead: str, sentence: str, caveat: str) -> None:
    """Print the sentences of a verdict in bold, one per line, and its caveat below them."""
    for line in each_sentence(sentence):
        print_hanging(console, lead, line, style="bold")
    if caveat:
        print_hanging(console, f"{lead}Caveat: ", caveat, style="yellow")


def print_hanging(console: Console, lead: str, text: str, *, style: str = "") -> None:
    """Print a text wrapped at the width of the console, its further lines indented as its first.

    A line break becomes a blank: one in the text of a log would break the layout. Words that are
    wider than the console stay whole, so that paths and commands survive being copied.

    Args:
        console: Where to print.
        lead: What stands before the first line; as many blanks stand before the others.
        text: What to print.
        style: A style of rich.
    """
    lines = textwrap.wrap(
        " ".join(text.splitlines()),
        max(console.width, _NARROWEST),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
        break_long_words=False,
    )
    console.print(Text("\n".join(lines) or lead, style=style), soft_wrap=True)
