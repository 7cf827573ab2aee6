"""Any section of a report in a terminal.

Tested in ``tests/report/sections/test_run_sections.py``.
"""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof.report.sections.section import Head, Section
from hvdprof.report.terminal.hanging_text import print_hanging

_INDENT = "  "


def print_section(console: Console, section: Section) -> None:
    """Print heading, caption, rows, note and sentences; an empty line comes before a heading."""
    if section.title:
        heading = Text(f"\n{section.title}", style="bold")
        console.print(heading.append(f"  {section.detail}" if section.detail else "", style="dim"))
    if section.caption:
        print_hanging(console, _INDENT, section.caption, style="dim")
    if section.rows:
        console.print(_table(section.heads, section.rows))
    if section.note:
        print_hanging(console, _INDENT, section.note, style="dim")
    for sentence in section.sentences:
        print_hanging(console, _INDENT, sentence)


def _table(heads: Sequence[Head], rows: Sequence[Sequence[str]]) -> Table:
    shown = [place for place, head in enumerate(heads) if not head.is_detail]
    num_lines = max(heads[place].name.count("\n") for place in shown)
    frame = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place in shown:
        head = heads[place]
        # Names stand directly above their numbers.
        name = "\n" * (num_lines - head.name.count("\n")) + (_INDENT if place == 0 else "")
        if head.is_text:
            frame.add_column(name + head.name, overflow="fold")
        else:
            frame.add_column(name + head.name, justify="right", no_wrap=True)
    for row in rows:
        cells = [Text(row[place]) for place in shown]
        frame.add_row(Text(_INDENT) + cells[0], *cells[1:])
    return frame
