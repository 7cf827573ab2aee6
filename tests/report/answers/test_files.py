"""Standalone files in a terminal."""

import io
import re
from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.report.answers.files import files_answer
from tests.builders.written import written


@pytest.mark.heavy
def test_bracketed_text_in_the_name_of_a_file_is_shown(tmp_path: Path) -> None:
    for name, rate in (("one[bold].txt", 612.0), ("four[bold].txt", 1_960.0)):
        np_ = 1 if name.startswith("one") else 4
        (tmp_path / name).write_text(f"Total img/sec on {np_} CPU(s): {rate} +-1.0\n")
    stream = io.StringIO()
    files_answer(api.analyze_files(api.load_run(tmp_path))).write("terminal", stream, width=200)
    assert stream.getvalue().count("one[bold].txt") == 2


@pytest.mark.heavy
def test_a_file_that_says_nothing_comes_last(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no number here\n")
    (tmp_path / "b.txt").write_text("Total img/sec on 4 CPU(s): 1960.0 +-1.0\n")
    stream = io.StringIO()
    files_answer(api.analyze_files(api.load_run(tmp_path))).write("terminal", stream, width=200)
    assert stream.getvalue().index("b.txt  ") < stream.getvalue().index("a.txt  ")


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 40])
def test_numbers_and_names_of_files_are_whole(tmp_path: Path, width: int) -> None:
    names = [f"run_{60 * 'x'}_np{np_}.txt" for np_ in (1, 4)]
    for name, np_ in zip(names, (1, 4), strict=True):
        (tmp_path / name).write_text(f"Total img/sec on {np_} CPU(s): {np_ * 490.0} +-1.0\n")
    text = written(files_answer(api.analyze_files(api.load_run(tmp_path))), width=width)
    table = text[text.index("  np  ") :].splitlines()[1:]
    firsts = [line.split() for line in table if re.match(r" {3}\d", line)]
    assert [words[:2] for words in firsts] == [["1", "490"], ["4", "1,960"]]
    folded = "".join(line.split()[-1] for line in table if line.strip())
    assert folded == "".join(names)
    assert width < 80 or max(map(len, table)) <= width
