import stat
import sys

import pytest

from hvdprof.errors import EnvironmentNotReadyError, StorageError
from hvdprof.report.images.printed_page import write_pdf

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
