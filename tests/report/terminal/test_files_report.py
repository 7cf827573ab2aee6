"""Standalone files in a terminal."""

import io
import re
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


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 40])
def test_numbers_are_whole_and_names_of_files_lose_their_middle(tmp_path: Path, width: int) -> None:
    for np_ in (1, 4):
        name = f"run_{60 * 'x'}_np{np_}.txt"
        (tmp_path / name).write_text(f"Total img/sec on {np_} CPU(s): {np_ * 490.0} +-1.0\n")
    stream = io.StringIO()
    render_files(api.analyze_files(api.load_run(tmp_path)), stream, width=width)
    table = stream.getvalue().rpartition("file\n")[2].splitlines()[1:]
    assert [line.split()[0] for line in table] == ["1", "4"]
    assert [line.split()[1] for line in table] == ["490", "1,960"]
    for line, np_ in zip(table, (1, 4), strict=True):
        assert re.search(rf" run_x+…x+_np{np_}\.txt$", line)
    assert width < 80 or max(map(len, table)) <= width
