"""A tuning as Markdown, for a pull request or a page.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import IO

from hvdprof.model.tuning import Tuning
from hvdprof.report.markdown_text import escaped, table_row, with_code
from hvdprof.report.tuning.tuning_texts import CHECK_HEAD, HEAD, TuningTexts, tuning_texts


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
