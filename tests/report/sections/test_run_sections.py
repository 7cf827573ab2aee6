"""Every section is drawn alike in a terminal, in Markdown and in HTML."""

import io

import pytest
from rich.console import Console

from hvdprof.model.glossary import term
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.document.html_report import HtmlReporter
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.sections import run_sections
from hvdprof.report.sections.run_sections import SECTIONS, Shown, sections_of
from hvdprof.report.sections.section import Head, Section
from hvdprof.report.terminal.section_text import print_section
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders.finished_analysis import full_analysis

SECTION = Section(
    "Title",
    "of a|b",
    "caption",
    (Head("rank"), Head("step\ntime"), Head("where", is_text=True), Head("more", is_detail=True)),
    (("0", "1.0 ms", "host[1]", "7"), ("12", "22.0 ms", "<b>", "8")),
    ("Run `a | b`.",),
    "A note.",
)
TERMINAL = """\

Title  of a|b
  caption
           step
  rank     time  where
     0   1.0 ms  host[1]
    12  22.0 ms  <b>
  A note.
  Run `a | b`.
"""
MARKDOWN = """\
### Title: of a\\|b

caption

| rank | step time | where | more |
|---:|---:|:---|---:|
| 0 | 1.0 ms | host\\[1\\] | 7 |
| 12 | 22.0 ms | \\<b\\> | 8 |

A note.

- Run `a | b`.
"""


def written(reporter, monkeypatch):
    monkeypatch.setattr(run_sections, "SECTIONS", (Shown(SECTIONS[0].table, lambda _: (SECTION,)),))
    stream = io.StringIO()
    reporter.render(full_analysis(), stream)
    return stream.getvalue()


def test_a_terminal_shows_all_but_the_details():
    stream = io.StringIO()
    print_section(Console(file=stream, width=80), SECTION)
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == TERMINAL.splitlines()


def test_what_is_empty_is_not_drawn():
    stream = io.StringIO()
    print_section(Console(file=stream, width=80), Section("Title", sentences=("One.",)))
    assert stream.getvalue() == "\nTitle\n  One.\n"


@pytest.mark.heavy
def test_markdown_shows_all(monkeypatch):
    assert MARKDOWN in written(MarkdownReporter(), monkeypatch)


@pytest.mark.heavy
def test_html_shows_all(monkeypatch):
    page = written(HtmlReporter(), monkeypatch)
    assert '<h2>Title <span class="dim">of a|b</span></h2>' in page
    assert f'<th scope="col" title="{term("step time").definition}">step time</th>' in page
    assert '<th scope="col" class="text">where</th>' in page
    assert '<td>22.0 ms</td><td class="text">&lt;b&gt;</td><td>8</td>' in page
    assert "<p>Run <code>a | b</code>.</p>" in page


@pytest.mark.heavy
def test_the_terminal_report_shows_it(monkeypatch):
    assert "12  22.0 ms  <b>" in written(TerminalReporter(80), monkeypatch)


def test_a_section_is_of_a_declared_table_and_stands_once():
    tables = [shown.table for shown in SECTIONS]
    assert len({table.name for table in tables}) == len(tables)
    assert all(table in TABLES for table in tables)
    assert len({shown.shape for shown in SECTIONS}) == len(SECTIONS)


@pytest.mark.heavy
def test_rows_have_a_text_for_every_head():
    for section in sections_of(full_analysis()):
        assert section.title
        assert {len(row) for row in section.rows} <= {len(section.heads)}
