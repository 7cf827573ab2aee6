"""A tuning in a terminal: verdict, the line to copy, what was tried, the score.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from dataclasses import astuple
from typing import IO

from rich.console import Console
from rich.text import Text

from hvdprof.model.tuning import TrialOutcome, Tuning
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.report.terminal.whole_table import plain_frame, print_whole
from hvdprof.report.tuning.tuning_texts import CHECK_HEAD, HEAD, tuning_texts

_STYLES = {
    TrialOutcome.CONFIRMED: "bold green",
    TrialOutcome.WORSE: "red",
    TrialOutcome.FAILED: "red",
    TrialOutcome.NOT_CONFIRMED: "yellow",
}


def render_tuning(tuning: Tuning, stream: IO[str], *, width: int | None = None) -> None:
    """Write the result for a reader: the verdict in line 1, the command to copy in 2."""
    console = report_console(stream, width)
    page = tuning_texts(tuning)
    # Each whole on one line, however long: scripts read the first, and the second is copied.
    console.print(Text(page.sentence, style="bold"), soft_wrap=True)
    if page.line:
        console.print(Text(page.line, style="bold green"), soft_wrap=True)
    if page.in_code:
        console.print(Text(page.in_code, style="green"), soft_wrap=True)
    if page.caveat:
        print_hanging(console, "", f"Caveat: {page.caveat}", style="yellow")
    console.print()
    print_hanging(console, "", page.job, style="dim")
    print_hanging(console, "", f"Present setting: {page.present}")
    if page.trials:
        _print_rows(console, "Tried", HEAD, [astuple(trial) for trial in page.trials])
        print_hanging(console, "  ", page.about, style="dim")
    if page.checks:
        _print_rows(console, "Checked anew", CHECK_HEAD, [astuple(check) for check in page.checks])
    _print_lines(console, "Why", page.reasons)
    _print_lines(console, "Predictions", page.score)
    _print_lines(console, "Not tried", page.untried)
    console.print()
    print_hanging(console, "", page.again, style="dim")


def _print_rows(
    console: Console, title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]
) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    frame = plain_frame(*head)
    for *cells, outcome in rows:
        style = _STYLES.get(TrialOutcome(outcome), "")
        frame.add_row(*cells, Text(outcome, style=style))
    print_whole(console, frame)


def _print_lines(console: Console, title: str, lines: tuple[str, ...]) -> None:
    if lines:
        console.print(Text(f"\n{title}", style="bold"))
    for line in lines:
        print_hanging(console, "  ", line)
