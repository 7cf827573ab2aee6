"""A comparison in a terminal: verdict, cells, what moved, what differs.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from typing import IO

from rich.console import Console
from rich.text import Text

from hvdprof.model.results.comparison import Comparison, ComparisonOutcome
from hvdprof.report.comparison.comparison_texts import (
    CellCauses,
    CellLines,
    ComparisonTexts,
    comparison_texts,
)
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict
from hvdprof.report.terminal.whole_table import plain_frame, print_whole

_STYLES = {
    ComparisonOutcome.REGRESSED: "bold red",
    ComparisonOutcome.IMPROVED: "bold green",
    ComparisonOutcome.EQUAL: "",
    ComparisonOutcome.INCONCLUSIVE: "yellow",
    ComparisonOutcome.NOT_COMPARABLE: "dim",
}


def render_comparison(comparison: Comparison, stream: IO[str], *, width: int | None = None) -> None:
    """Write the comparison for a reader: the verdict in the first lines."""
    console = report_console(stream, width)
    page = comparison_texts(comparison)
    print_verdict(console, "", page.sentence, page.caveat)
    _print_lines(console, "Gate", page.gate)
    console.print()
    print_hanging(console, "", page.sides, style="dim")
    for cell in page.cells:
        _print_cell(console, cell, page.change_head)
        # The verdict gives the reason that holds for the whole.
        if cell.reason and cell.reason != comparison.reason:
            print_hanging(console, "  ", f"Not comparable: {cell.reason}.", style="dim")
    _print_lines(console, "Mean of all cells", page.pooled)
    _print_causes(console, page)
    _print_lines(console, "What differs", page.settings)
    _print_lines(console, "Notes", page.notes)


def _print_cell(console: Console, cell: CellLines, change_head: str) -> None:
    heading = Text(f"\n{cell.name}", style="bold cyan")
    heading.append(f"  {cell.launches}", style="not bold default")
    console.print(heading)
    frame = plain_frame("", "first", "second", change_head, "outcome")
    for line in cell.lines:
        style = _STYLES[ComparisonOutcome(line.outcome)]
        frame.add_row(
            line.title, line.first, line.second, line.change, Text(line.outcome, style=style)
        )
    print_whole(console, frame)


def _print_causes(console: Console, page: ComparisonTexts) -> None:
    console.print(Text("\nWhat moved", style="bold"))
    about = "Time per step by cause; * beyond chance." if page.causes else "No cause beyond chance."
    print_hanging(console, "  ", about, style="dim")
    for cell in page.causes:
        _print_cell_causes(console, cell)


def _print_cell_causes(console: Console, cell: CellCauses) -> None:
    console.print(Text(f"  {cell.name}", style="cyan"))
    frame = plain_frame("", "first", "second", "difference (95 % CI)", "")
    for line in cell.lines:
        frame.add_row(
            line.name, line.first, line.second, line.difference, "*" if line.moved else ""
        )
    frame.add_section()
    frame.add_row("step time", cell.first, cell.second, cell.difference, "")
    print_whole(console, frame)


def _print_lines(console: Console, title: str, lines: tuple[str, ...]) -> None:
    if lines:
        console.print(Text(f"\n{title}", style="bold"))
    for line in lines:
        print_hanging(console, "  ", line)
