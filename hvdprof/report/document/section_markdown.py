"""Markdown: texts that end no table and start no markup, sections, and pages of sections."""

import re
from collections.abc import Iterable, Iterator
from typing import IO

import pandas as pd

from hvdprof.plain_text import printable
from hvdprof.report.finding_texts import findings_texts
from hvdprof.report.sections.section import Page, Section, sections_of_notes

_IN_BACKTICKS = re.compile(r"`([^`]*[^`\s][^`]*)`")
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|#"})


def write_markdown(page: Page, stream: IO[str]) -> None:
    """Write sections, findings and notes."""
    notes = markdown_of(sections_of_notes(page.notes))
    parts = (markdown_of(page.sections), findings_markdown(page.findings), notes)
    stream.write("\n".join(filter(None, parts)))


def markdown_of(sections: Iterable[Section]) -> str:
    """The sections one below the other, an empty line between all of their parts."""
    blocks = ["\n".join(block) for section in sections for block in _blocks(section)]
    return "\n\n".join(blocks) + "\n" * bool(blocks)


def findings_markdown(findings: pd.DataFrame) -> str:
    """Rows of FINDINGS as a list below a heading; empty where there are none."""
    lines = [] if findings.empty else ["### Findings", ""]
    for finding in findings_texts(findings):
        lines.append(f"- **{escaped(f'{finding.weight}: {finding.title}')}**")
        lines.append(f"  {with_code(finding.evidence)} {escaped(finding.figures)}")
        if finding.quote:
            lines.append(f"  {as_code(finding.quote)}")
        if finding.action:
            lines.append(f"  **Action:** {with_code(finding.action)}")
    return "".join(f"{line}\n" for line in lines)


def _blocks(section: Section) -> Iterator[list[str]]:
    if section.verdict:
        yield [f"**{with_code(section.verdict)}**"]
    if section.caveat:
        yield [f"Caveat: {with_code(section.caveat)}"]
    if section.verdict:
        yield from _actions(section)
    if section.title:
        detail = f": {section.detail}" if section.detail else ""
        yield [f"### {escaped(section.title + detail)}"]
    if section.caption:
        yield [escaped(section.caption)]
    if section.rows:
        yield list(_rows(section))
    if section.note:
        yield [escaped(section.note)]
    if section.sentences:
        yield [f"- {with_code(sentence)}" for sentence in section.sentences]
    if not section.verdict:
        yield from _actions(section)


def _rows(section: Section) -> Iterator[str]:
    """A table, or a list of labels and their values where columns have no heads."""
    if not section.has_heads:
        yield from (line for row in section.rows for line in _items(row))
        return
    sides = (":---|" if head.is_text else "---:|" for head in section.heads)
    yield table_row(head.name for head in section.heads)
    yield f"|{''.join(sides)}"
    yield from map(table_row, section.rows)


def _items(row: tuple[str, ...]) -> Iterator[str]:
    """A label and its value as an item of a list; lines of the value are items below it."""
    label, value = row[0], " ".join(row[1:])
    lines = value.split("\n")
    yield f"- {escaped(label)}:" + (f" {escaped(value)}" if len(lines) == 1 else "")
    for line in lines if len(lines) > 1 else ():
        yield f"  - {escaped(line)}"


def _actions(section: Section) -> Iterator[list[str]]:
    for action in section.actions:
        label = f"{action.label}: " if action.label else ""
        if action.label or action.sentence:
            yield [f"{label}{with_code(action.sentence)}".rstrip()]
        if action.command:
            yield [f"    {line}" for line in action.command.splitlines()]


def escaped(text: str) -> str:
    """A text in one line as it is: names of scripts and hosts may hold anything."""
    return _escaped(_in_one_line(text))


def with_code(text: str) -> str:
    """A text whose commands in backticks stay code, so that they can be copied from the raw file.

    Not for cells of tables, which a ``|`` in code would divide.
    """
    return "".join(
        f"`{printable(piece.strip())}`" if number % 2 else _escaped(piece)
        for number, piece in enumerate(code_pieces(_in_one_line(text)))
    )


def as_code(text: str) -> str:
    """A text in one line as code."""
    shown = printable(_in_one_line(text)).replace("`", "'")
    return f"`{shown}`"


def code_pieces(text: str) -> list[str]:
    """A text divided at its commands in backticks: every second piece is a command."""
    return _IN_BACKTICKS.split(text)


def table_row(cells: Iterable[str]) -> str:
    """A row of a table, its texts escaped."""
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    return printable(text).translate(_SPECIAL)
