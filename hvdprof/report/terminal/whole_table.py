"""Tables in a terminal that are never cut: a number that is cut is a wrong number.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from rich import box
from rich.console import Console
from rich.table import Table

_UNBOUNDED = 10_000


def plain_frame(first: str, *others: str) -> Table:
    """A table of a name and columns of numbers."""
    frame = Table(
        box=box.HORIZONTALS,
        show_edge=False,
        pad_edge=False,
        border_style="dim",
        padding=(0, 1, 0, 0),
    )
    frame.add_column(first, no_wrap=True)
    for name in others:
        frame.add_column(name, justify="right", no_wrap=True, header_style="none")
    return frame


def print_whole(console: Console, frame: Table) -> None:
    """Print a table at its own width, also where the console is narrower."""
    width = console.width
    unbounded = console.options.update(width=_UNBOUNDED, max_width=_UNBOUNDED)
    console.width = max(width, console.measure(frame, options=unbounded).maximum)
    console.print(frame)
    console.width = width
