"""Standalone files in a terminal."""

import io
from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.report.terminal.files_report import render_files


@pytest.mark.heavy
def test_bracketed_text_in_the_name_of_a_file_is_shown(tmp_path: Path) -> None:
    for name, rate in (("one[bold].txt", 612.0), ("four[bold].txt", 1_960.0)):
        np_ = 1 if name.startswith("one") else 4
        (tmp_path / name).write_text(f"Total img/sec on {np_} CPU(s): {rate} +-1.0\n")
    stream = io.StringIO()
    render_files(api.analyze_files(api.load_run(tmp_path)), stream, width=200)
    assert stream.getvalue().count("one[bold].txt") == 2


@pytest.mark.heavy
def test_a_file_that_says_nothing_comes_last(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no number here\n")
    (tmp_path / "b.txt").write_text("Total img/sec on 4 CPU(s): 1960.0 +-1.0\n")
    stream = io.StringIO()
    render_files(api.analyze_files(api.load_run(tmp_path)), stream, width=200)
    assert stream.getvalue().index("b.txt  ") < stream.getvalue().index("a.txt  ")
