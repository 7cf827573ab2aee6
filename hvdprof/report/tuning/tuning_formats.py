"""How a tuning is written in each format, and which ends of file names choose one.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import IO

from rich.text import Text

from hvdprof.model.results.tuning import TUNING_SCHEMA_VERSION, TrialOutcome, Tuning
from hvdprof.report.format_names import TuningFormat
from hvdprof.report.json_values import JsonObject, json_value, write_json
from hvdprof.report.markdown_text import escaped, table_row, with_code
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.report.terminal.whole_table import plain_frame, print_whole
from hvdprof.report.tuning.tuning_texts import (
    again,
    job_of,
    tuning_lists,
    tuning_tables,
    what_to_set,
)

_STYLES = {
    TrialOutcome.CONFIRMED: "bold green",
    TrialOutcome.WORSE: "red",
    TrialOutcome.FAILED: "red",
    TrialOutcome.NOT_CONFIRMED: "yellow",
}


def render_tuning(tuning: Tuning, stream: IO[str], *, width: int | None = None) -> None:
    """Write the result for a reader: the verdict in line 1, the command to copy in 2."""
    console = report_console(stream, width)
    # Each whole on one line, however long: scripts read the first, and the second is copied.
    console.print(Text(tuning.sentence, style="bold"), soft_wrap=True)
    for label, text in what_to_set(tuning):
        style, lead = ("green", f"{label}: ") if label else ("bold green", "")
        console.print(Text(f"{lead}{text}", style=style), soft_wrap=True)
    if tuning.caveat:
        print_hanging(console, "", f"Caveat: {tuning.caveat}", style="yellow")
    console.print()
    print_hanging(console, "", job_of(tuning), style="dim")
    print_hanging(console, "", f"Present setting: {tuning.present}")
    for table in tuning_tables(tuning):
        console.print(Text(f"\n{table.title}", style="bold"))
        frame = plain_frame(*table.head)
        for *cells, outcome in table.rows:
            style = _STYLES.get(TrialOutcome(outcome), "")
            frame.add_row(*cells, Text(outcome, style=style))
        print_whole(console, frame)
        if table.about:
            print_hanging(console, "  ", table.about, style="dim")
    for title, lines in tuning_lists(tuning):
        console.print(Text(f"\n{title}", style="bold"))
        for line in lines:
            print_hanging(console, "  ", line)
    console.print()
    print_hanging(console, "", again(tuning), style="dim")


def render_tuning_markdown(tuning: Tuning, stream: IO[str]) -> None:
    """Write the page: verdict, what to set, what was tried, the score."""
    stream.write("\n".join(_lines(tuning)) + "\n")


def _lines(tuning: Tuning) -> Iterator[str]:
    yield f"**{escaped(tuning.sentence)}**"
    for label, text in what_to_set(tuning):
        yield from ("", *([f"{label}:", ""] if label else []), f"    {text}")
    if tuning.caveat:
        yield from ("", f"Caveat: {with_code(tuning.caveat)}")
    yield from ("", escaped(job_of(tuning)), "", f"Present setting: {escaped(tuning.present)}")
    for table in tuning_tables(tuning):
        yield from ("", f"### {table.title}", "", table_row(table.head))
        yield f"| --- | {' | '.join(['---:'] * (len(table.head) - 2))} | --- |"
        yield from map(table_row, table.rows)
        if table.about:
            yield from ("", escaped(table.about))
    for title, lines in tuning_lists(tuning):
        yield from ("", f"### {title}", "", *(f"- {with_code(line)}" for line in lines))
    yield from ("", escaped(again(tuning)))


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
