"""Every section is drawn alike in a terminal, in Markdown and in HTML."""

import io

import pytest
from rich.console import Console

from hvdprof.model.glossary import term
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.answers import comparison_page, scores
from hvdprof.report.answers import tuning as tuning_page
from hvdprof.report.answers.comparison_formats import comparison_answer
from hvdprof.report.answers.scores import forecast_answer
from hvdprof.report.answers.tuning import tuning_answer
from hvdprof.report.document.html_report import HtmlReporter
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.document.section_markdown import markdown_of
from hvdprof.report.sections import forecast_page, run_sections
from hvdprof.report.sections.run_sections import SECTIONS, Shown, sections_of
from hvdprof.report.sections.section import Action, Head, Section
from hvdprof.report.terminal.section_text import print_section
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders.finished_analysis import full_analysis
from tests.builders.finished_comparison import comparison
from tests.builders.finished_forecast import finished_forecast
from tests.builders.finished_tuning import tuning
from tests.builders.written import written as written_answer

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


MADE = [
    (comparison_page, "cell_sections", lambda: comparison_answer(comparison())),
    (forecast_page, "terminal_sections", lambda: forecast_answer(finished_forecast())),
    (tuning_page, "_tables", lambda: tuning_answer(tuning())),
]


@pytest.mark.parametrize(("module", "maker", "answer"), MADE)
def test_one_more_section_of_another_result_is_in_every_format(monkeypatch, module, maker, answer):
    monkeypatch.setattr(module, maker, lambda *_: (SECTION,))
    if module is forecast_page:
        monkeypatch.setattr(scores, maker, lambda *_: (SECTION,))

    text, page = (written_answer(answer(), name, width=80) for name in ("terminal", "markdown"))

    assert TERMINAL in "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    assert MARKDOWN in page


def test_a_table_too_wide_breaks_intervals_and_cuts_nothing():
    long = "HOROVOD_CYCLE_TIME=1 and more words"
    section = Section(
        heads=(Head("setting", is_text=True), *map(Head, ("gain", "measured"))),
        rows=((long, "45.0 % (40.0 to 50.0)", "43.0 % (38.0 to 47.8)"),),
    )
    stream = io.StringIO()
    print_section(Console(file=stream, width=60), section)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert "(40.0 to 50.0)  (38.0 to 47.8)" in stream.getvalue()
    assert "45.0 %" in lines[1]
    assert " ".join(line[:26].strip() for line in lines[1:]).strip() == long


def test_a_verdict_comes_with_its_caveat_and_what_to_do():
    section = Section(
        "Title",
        verdict="It is slow. Rank 1 is late.",
        caveat="One launch.",
        actions=(Action("Next", "measure again", "hvdprof bench " + "--a-long-option " * 8),),
    )
    stream = io.StringIO()
    print_section(Console(file=stream, width=40), section)
    assert stream.getvalue().splitlines() == [
        "It is slow.",
        "Rank 1 is late.",
        "Caveat: One launch.",
        "Next: measure again",
        "      hvdprof bench " + "--a-long-option " * 8,
        "",
        "Title",
    ]
    assert markdown_of((section,)).split("\n\n")[:3] == [
        "**It is slow. Rank 1 is late.**",
        "Caveat: One launch.",
        "Next: measure again",
    ]
