"""A comparison as Markdown, for a pull request or the summary of a CI step.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Iterator, Sequence
from typing import IO

from hvdprof.model.results.comparison import Comparison
from hvdprof.report.comparison.comparison_texts import (
    CellCauses,
    CellLines,
    ComparisonTexts,
    comparison_texts,
)
from hvdprof.report.markdown_text import escaped, table_row, with_code


def render_comparison_markdown(comparison: Comparison, stream: IO[str]) -> None:
    """Write the page: verdict, gate, one table of all cells, what moved, what differs."""
    stream.write("\n".join(_lines(comparison_texts(comparison))) + "\n")


def _lines(page: ComparisonTexts) -> Iterator[str]:
    yield f"**{escaped(page.sentence)}**"
    if page.caveat:
        yield from ("", f"Caveat: {with_code(page.caveat)}")
    yield from _list("Gate", page.gate)
    yield from ("", f"{escaped(page.sides)}", "")
    yield from _row(["cell", "metric", "first", "second", page.change_head, "outcome"])
    yield from _row(["---", "---", "---:", "---:", "---:", "---"], is_escaped=False)
    for cell in page.cells:
        yield from _cell(cell)
    yield from _list("Mean of all cells", page.pooled)
    for causes in page.causes:
        yield from _causes(causes)
    yield from _list("What differs", page.settings)
    yield from _list("Notes", page.notes)


def _cell(cell: CellLines) -> Iterator[str]:
    for line in cell.lines:
        outcome = f"{line.outcome}: {cell.reason}" if cell.reason else line.outcome
        yield from _row([cell.name, line.title, line.first, line.second, line.change, outcome])


def _causes(cell: CellCauses) -> Iterator[str]:
    yield from ("", f"### What moved: {escaped(cell.name)}", "")
    yield from _row(["cause", "first", "second", "difference (95 % CI)", "beyond chance"])
    yield from _row(["---", "---:", "---:", "---:", "---"], is_escaped=False)
    for line in cell.lines:
        yield from _row(
            [line.name, line.first, line.second, line.difference, "yes" if line.moved else ""]
        )
    yield from _row(["step time", cell.first, cell.second, cell.difference, ""])


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"### {title}", "")
    for line in lines:
        yield f"- {with_code(line)}"


def _row(cells: Sequence[str], *, is_escaped: bool = True) -> Iterator[str]:
    yield table_row(cells) if is_escaped else f"| {' | '.join(cells)} |"
