import os
import stat
import sys

import pytest

from hvdprof import api
from hvdprof.errors import EnvironmentNotReadyError, StorageError
from hvdprof.report.document import draw_image, figure_file
from hvdprof.report.document.figure_file import write_figure, write_pdf
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


@pytest.fixture
def analysis(tmp_path):
    one = PassSpec(
        size=1,
        repeat=1,
        segments=[SegmentSpec(engine="torch", parts_ms=typical_parts(10.0, 0.0))],
    )
    return api.analyze_run(api.load_run(write_run(tmp_path / "quick", [one])))


@pytest.fixture
def drawn_by(monkeypatch, tmp_path):
    """Make a program of these lines draw; what it writes to ``seen`` is returned by the call."""

    def use(lines):
        program = tmp_path / "drawing.py"
        program.write_text(
            f"import os, sys, time\nseen = open({str(tmp_path / 'seen')!r}, 'a+')\n{lines}\n",
            encoding="utf-8",
        )
        monkeypatch.setattr(draw_image, "__file__", str(program))
        return lambda: (tmp_path / "seen").read_text(encoding="utf-8").split()

    return use


FIRST_HANGS = """
seen.write(f"{os.getpid()}\\n")
seen.flush()
seen.seek(0)
if len(seen.read().split()) == 1:
    time.sleep(600)
assert '"data"' in sys.stdin.read()
sys.stdout.buffer.write(" ".join(sys.argv[1:]).encode())
"""


@pytest.mark.slow
def test_a_browser_that_does_not_answer_is_ended_and_started_again(
    analysis, drawn_by, monkeypatch, tmp_path
):
    monkeypatch.setattr(figure_file, "_ATTEMPT_LIMIT_S", 3.0)
    pids = drawn_by(FIRST_HANGS)

    write_figure(analysis, "scaling", tmp_path / "scaling.svg")

    assert (tmp_path / "scaling.svg").read_text(encoding="utf-8") == "svg 900 2"
    hung, _ = pids()
    with pytest.raises(ProcessLookupError):
        os.kill(int(hung), 0)


@pytest.mark.slow
def test_a_browser_that_never_answers_is_reported_and_leaves_no_file(
    analysis, drawn_by, monkeypatch, tmp_path
):
    monkeypatch.setattr(figure_file, "_ATTEMPT_LIMIT_S", 0.5)
    drawn_by("time.sleep(600)")

    with pytest.raises(EnvironmentNotReadyError, match="within") as raised:
        write_figure(analysis, "scaling", tmp_path / "scaling.svg")

    assert raised.value.hint
    assert not list(tmp_path.glob("*scaling*"))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("sys.exit('the page crashed')", "the page crashed"),
        ("os._exit(9)", "exit code 9"),
        (f"sys.exit({draw_image.NO_BROWSER})", "missing or does not start"),
    ],
)
def test_the_reason_for_a_failed_drawing_is_reported(analysis, drawn_by, tmp_path, lines, message):
    drawn_by(lines)

    with pytest.raises(EnvironmentNotReadyError, match=message):
        write_figure(analysis, "scaling", tmp_path / "scaling.svg")

    assert not list(tmp_path.glob("*scaling*"))


@pytest.mark.browser
def test_a_browser_that_does_not_start_is_reported(analysis, monkeypatch, tmp_path):
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(program))

    with pytest.raises(EnvironmentNotReadyError, match="missing or does not start"):
        write_figure(analysis, "scaling", tmp_path / "scaling.png")


pytest.importorskip("choreographer")

PRINTS = """
page = sys.argv[-1].removeprefix("file://")
(target,) = [one.partition("=")[2] for one in sys.argv if one.startswith("--print-to-pdf=")]
open(target, "w").write("%PDF of " + open(page).read())
"""


@pytest.fixture
def browser(monkeypatch, tmp_path):
    """Make a program of these lines the browser."""

    def use(lines):
        program = tmp_path / "browser"
        program.write_text(f"#!{sys.executable}\nimport sys\n{lines}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("BROWSER_PATH", str(program))

    return use


def render(file):
    file.write("<p>page</p>")


def test_the_browser_prints_the_page(browser, tmp_path):
    browser(PRINTS)
    write_pdf(render, tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_text() == "%PDF of <p>page</p>"
    with pytest.raises(StorageError, match="exists and is not overwritten"):
        write_pdf(render, tmp_path / "r.pdf")
    write_pdf(render, tmp_path / "r.pdf", overwrite=True)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [("sys.exit('no display')", "no display"), ("sys.exit(7)", "exit code 7")],
)
def test_a_browser_that_prints_nothing_is_reported(browser, tmp_path, lines, reason):
    browser(lines)
    with pytest.raises(EnvironmentNotReadyError, match=f"did not print the report: {reason}"):
        write_pdf(render, tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


def test_without_a_browser_the_other_way_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setattr("choreographer.browsers.chromium.Chromium.find_browser", lambda **_: None)
    with pytest.raises(EnvironmentNotReadyError, match="prints a PDF, is missing") as raised:
        write_pdf(render, tmp_path / "r.pdf")
    assert "hvdprof report RUN -o report.html" in raised.value.hint
