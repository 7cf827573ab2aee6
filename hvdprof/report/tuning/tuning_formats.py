"""How a tuning is written in each format, and which ends of file names choose one.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import IO

from rich.console import Console
from rich.text import Text

from hvdprof.model.tuning import TUNING_SCHEMA_VERSION, TrialOutcome, Tuning
from hvdprof.report.format_names import TuningFormat
from hvdprof.report.json_values import JsonObject, json_value, write_json
from hvdprof.report.markdown_text import escaped, table_row, with_code
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.report.terminal.whole_table import plain_frame, print_whole
from hvdprof.report.tuning.tuning_texts import CHECK_HEAD, HEAD, TuningTexts, tuning_texts

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


def render_tuning_markdown(tuning: Tuning, stream: IO[str]) -> None:
    """Write the page: verdict, what to set, what was tried, the score."""
    stream.write("\n".join(_lines(tuning_texts(tuning))) + "\n")


def _lines(page: TuningTexts) -> Iterator[str]:
    yield f"**{escaped(page.sentence)}**"
    if page.line:
        yield from ("", f"    {page.line}")
    if page.in_code:
        yield from ("", with_code(page.in_code))
    if page.caveat:
        yield from ("", f"Caveat: {with_code(page.caveat)}")
    yield from ("", escaped(page.job), "", f"Present setting: {escaped(page.present)}")
    if page.trials:
        yield from _table("Tried", HEAD, [astuple(trial) for trial in page.trials])
        yield from ("", escaped(page.about))
    if page.checks:
        yield from _table("Checked anew", CHECK_HEAD, [astuple(check) for check in page.checks])
    yield from _list("Why", page.reasons)
    yield from _list("Predictions", page.score)
    yield from _list("Not tried", page.untried)
    yield from ("", escaped(page.again))


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield from ("", f"### {title}", "", table_row(head))
    yield f"| --- | {' | '.join(['---:'] * (len(head) - 2))} | --- |"
    for row in rows:
        yield table_row(row)


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"### {title}", "")
    for line in lines:
        yield f"- {with_code(line)}"


def render_tuning_json(tuning: Tuning, stream: IO[str]) -> None:
    """Write one indented object and a newline; docs/howto/tune.md lists its keys."""
    content: JsonObject = {"schema_version": TUNING_SCHEMA_VERSION}
    content |= {name: json_value(value) for name, value in asdict(tuning).items()}
    write_json(content, stream)


RENDERERS: dict[TuningFormat, Callable[[Tuning, IO[str]], None]] = {
    TuningFormat.TERMINAL: render_tuning,
    TuningFormat.JSON: render_tuning_json,
    TuningFormat.MARKDOWN: render_tuning_markdown,
}
"""What writes a tuning to a text stream."""

SUFFIXES: dict[str, TuningFormat] = {
    ".json": TuningFormat.JSON,
    ".md": TuningFormat.MARKDOWN,
    ".txt": TuningFormat.TERMINAL,
}
"""The ends of file names that choose a format."""
