"""Text that may hold anything, such as lines of a log, wrapped below a lead.

Tested in ``tests/report/terminal/test_terminal_report.py``.
"""

import textwrap

from rich.console import Console
from rich.text import Text

from hvdprof.report.sentence_ends import each_sentence

_NARROWEST = 40


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
