import io
import re
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import hvdprof.report
from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from hvdprof.report.document.html_report import HtmlReporter
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.formats import Reporter
from hvdprof.report.terminal.section_text import report_console
from hvdprof.report.terminal.terminal_report import TerminalReporter
from hvdprof.rundir.failures.launcher_failures import Failure
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def test_texts_take_no_effect_and_styles_stay() -> None:
    stream = io.StringIO()
    console = report_console(stream, 80)
    console.print(HOSTILE, markup=False)
    table = Table("head")
    table.add_row(Text(f"cell {HOSTILE}", style="bold"))
    console.print(table)
    assert not CONTROL.search(stream.getvalue())
    # rich itself drops the bell and the carriage return.
    assert r"\x1b[2J\x1b]0;owned\x9b31m\u202e" in stream.getvalue()


def test_every_report_prints_by_this_console() -> None:
    (folder,) = hvdprof.report.__path__
    made = re.compile(r"(?<!\w)Console\(")
    others = [
        path.name for path in Path(folder).rglob("*.py") if made.search(path.read_text("utf-8"))
    ]
    assert others == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunAnalysis:
    failure = Failure(reason=f"rank 1 {HOSTILE}", rank=1, lines=[HOSTILE], host=f"h{HOSTILE}")
    failed = SegmentSpec(compression="fp16", status="failed", failure=failure)
    folder = write_run(
        tmp_path_factory.mktemp("runs") / "run",
        [
            PassSpec(),
            PassSpec(size=2, hosts=["a", f"b{HOSTILE}"], segments=[SegmentSpec(), failed]),
        ],
        name=f"run {HOSTILE}",
        command=["hvdprof", HOSTILE],
        warnings=[f"look {HOSTILE}"],
        versions={"torch": HOSTILE},
    )
    return analyze_run(load_run(folder))


@pytest.mark.heavy
@pytest.mark.parametrize("reporter", [TerminalReporter(), MarkdownReporter()])
def test_a_hostile_run_takes_no_effect(hostile: RunAnalysis, reporter: Reporter) -> None:
    stream = io.StringIO()
    reporter.render(hostile, stream)
    assert not CONTROL.search(stream.getvalue())
    assert "owned" in stream.getvalue()


@pytest.mark.heavy
def test_a_page_shows_it_as_escapes(hostile: RunAnalysis) -> None:
    stream = io.StringIO()
    HtmlReporter().render(hostile, stream)
    # The library that draws figures has control characters of its own in its texts.
    assert "\x1b[2J" not in stream.getvalue() and "\u202e" not in stream.getvalue()
    assert r"\x1b[2J" in stream.getvalue()
