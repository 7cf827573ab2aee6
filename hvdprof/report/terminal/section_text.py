"""Tables, texts, sections and findings in a terminal; a number is never cut."""

import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO, Literal

import pandas as pd
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hvdprof.plain_text import printable_lines
from hvdprof.report.finding_texts import each_sentence, findings_texts
from hvdprof.report.sections.section import Page, Section, sections_of_notes

_INDENT = "  "
_BETWEEN = 2
"""Characters between two columns."""

_LEAST_WORDS = 16
_STYLES = {"": "", "dim": "dim", "good": "bold green", "caution": "yellow", "bad": "bold red"}

_SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}

_UNBOUNDED = 10_000

_NARROWEST = 40


def print_page(console: Console, page: Page) -> None:
    """Print the sections, the findings and the notes; an empty line comes before a verdict."""
    for number, section in enumerate(page.sections):
        if number and section.verdict:
            console.print()
        print_section(console, section)
    print_findings(console, page.findings)
    for section in sections_of_notes(page.notes):
        print_section(console, section)


def print_section(console: Console, section: Section) -> None:
    """Print all of a section that is not empty; an empty line comes before a heading."""
    if section.is_verdict_whole:
        console.print(Text(section.verdict, style="bold"), soft_wrap=True)
    else:
        print_verdict(console, section.verdict)
    print_verdict(console, "", section.caveat)
    if section.verdict:
        _print_actions(console, section)
    if section.title:
        style = "bold yellow" if section.is_warning else "bold"
        heading = Text(f"\n{section.title}", style=style)
        heading.append(f"  {section.detail}" if section.detail else "", style="not bold dim")
        console.print(heading, soft_wrap=True)
    if section.caption:
        print_hanging(console, _INDENT, section.caption, style="dim")
    if section.rows:
        # Print the rows, intervals below their numbers where they are too wide; nothing is cut.
        width, rows = console.width, section.rows
        if _least_width(section, rows) > width:
            rows = tuple(tuple(text.replace(" (", "\n(", 1) for text in row) for row in rows)
        console.width = max(width, _least_width(section, rows))
        console.print(_table(section, rows))
        console.width = width
    if section.note:
        print_hanging(console, _INDENT, section.note, style="dim")
    for sentence in section.sentences:
        print_hanging(console, f"{_INDENT}! " if section.is_warning else _INDENT, sentence)
    if not section.verdict:
        _print_actions(console, section)


def _print_actions(console: Console, section: Section) -> None:
    indent = "" if section.verdict else _INDENT
    for action in section.actions:
        label = f"{action.label}: " if action.label else ""
        if action.sentence:
            print_hanging(console, indent + label, action.sentence)
            label = " " * 6
        if action.command:
            # A command must survive being copied, so it is never broken into lines.
            console.print(Text(f"{label}{action.command}", style="green"), soft_wrap=True)


def _least_width(section: Section, rows: Sequence[Sequence[str]]) -> int:
    """The characters of a table whose numbers are whole, and whose words have some room."""
    widths = [
        min(_longest(section, rows, place), _LEAST_WORDS if head.is_text else sys.maxsize)
        for place, head in enumerate(section.heads)
        if not head.is_detail
    ]
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _longest(section: Section, rows: Sequence[Sequence[str]], place: int) -> int:
    texts = [section.heads[place].name, *(row[place] for row in rows)]
    lead = len(_INDENT) if place == 0 else 0
    return max(cell_len(line) for text in texts for line in text.splitlines() or [""]) + lead


def _table(section: Section, rows: Sequence[Sequence[str]]) -> Table:
    heads = section.heads
    shown = [place for place, head in enumerate(heads) if not head.is_detail]
    num_lines = max(heads[place].name.count("\n") for place in shown)
    frame = Table(
        box=None,
        pad_edge=False,
        padding=(0, _BETWEEN, 0, 0),
        header_style="dim",
        show_header=section.has_heads,
    )
    for place in shown:
        head = heads[place]
        # Names stand directly above their numbers.
        above, lead = "\n" * (num_lines - head.name.count("\n")), _INDENT if place == 0 else ""
        name = above + "\n".join(lead + line for line in head.name.splitlines())
        if head.is_text:
            # A label of a fact stays in one line.
            is_label = place == 0 and not section.has_heads
            frame.add_column(name, overflow="fold", no_wrap=is_label)
        else:
            frame.add_column(name, justify="right", no_wrap=True)
    has_outcome = any(heads[place].is_outcome for place in shown)
    for number, row in enumerate(rows):
        style = _STYLES[section.tones[number]] if section.tones else ""
        cells = [
            Text(row[place], style=style if heads[place].is_outcome >= has_outcome else "")
            for place in shown
        ]
        # Padding, so that what is folded stays indented.
        frame.add_row(Padding(cells[0], (0, 0, 0, len(_INDENT))), *cells[1:])
    return frame


def print_findings(console: Console, findings: pd.DataFrame) -> None:
    """Print rows of ``FINDINGS`` in their order below a heading; nothing where there are none."""
    if findings.empty:
        return
    console.print(Text("\nFindings", style="bold"))
    for finding in findings_texts(findings):
        style = _SEVERITY_STYLES[finding.severity]
        print_hanging(console, "  ", f"{finding.weight}: {finding.title}", style=style)
        print_hanging(console, "    ", finding.evidence)
        if finding.figures:
            print_hanging(console, "    ", finding.figures)
        if finding.quote:
            print_hanging(console, "    | ", finding.quote, style="dim")
        if finding.action:
            print_hanging(console, "    > ", finding.action, style="cyan")


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


def print_verdict(console: Console, sentence: str, caveat: str = "") -> None:
    """Print the sentences of a verdict in bold, one per line, and its caveat below them."""
    for line in each_sentence(sentence):
        print_hanging(console, "", line, style="bold")
    if caveat:
        print_hanging(console, "Caveat: ", caveat, style="yellow")


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


def report_console(stream: IO[str], width: int | None = None) -> Console:
    """A console that writes to a stream and shows control characters of texts as escapes."""
    return _PlainConsole(file=stream, width=width, highlight=False, emoji=False)


class _PlainConsole(Console):
    """Texts pass here before they are laid out; the sequences of styles are made afterwards."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, str):
            renderable = printable_lines(renderable)
        elif isinstance(renderable, Text):
            plain = printable_lines(renderable.plain)
            # Only a text with such characters loses its highlights.
            if plain != renderable.plain:
                renderable = renderable.blank_copy(plain)
        return super().render(renderable, options)
