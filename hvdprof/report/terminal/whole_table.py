"""Tables in a terminal that are never cut: a number that is cut is a wrong number.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof.report.terminal.hanging_text import print_hanging

_UNBOUNDED = 10_000


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


def plain_frame(first: str, *others: str) -> Table:
    """A table of a name and columns of numbers."""
    return frame_of((first, "left"), *((name, "right") for name in others))


def number_frame(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table of numbers with its rows, whose texts are shown as they are."""
    frame = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    for head in heads:
        frame.add_column(head, justify="right", no_wrap=True, header_style="none")
    for row in rows:
        # As text: rich would take [a name] for a style.
        frame.add_row(*map(Text, row))
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
