"""Standalone files in a terminal."""

import io
import json
import re
from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.api.prediction import predict_throughput
from hvdprof.report.answers.files import files_answer, throughput_forecast_answer
from tests.builders.written import written

TEXT = ["1:872 8:6679 16:12828 32:23870"]

EXPECTED = """\
79 % (90 % band 66 to 91) scaling efficiency on 128 ranks. 80 % is reached up to 100 ranks (90 %
interval 45 to more than 128).
Caveat: Extrapolated to 4 times the largest measured size, by throughputs alone. Networks, hosts and
        settings that the table does not contain are not part of it.
Next: measure np=64 and add its row. The 90 % band on 128 ranks then narrows from 25 to about 16
      points.

throughput
          efficiency %                        chance
           (90 % band)            samples/s  of 80 %
   np        50 % band          (90 % band)  or more
    1   100.0 measured                  872
    8    95.7 measured                6,679
   16    91.9 measured               12,828
   32    85.5 measured               23,870
   64  82.4 (75 to 91)               46,003     71 %
              79 to 85   (41,632 to 50,560)
  128  78.9 (66 to 91)               88,018     43 %
              74 to 84  (73,481 to 101,704)
"""


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


def test_the_page_has_verdict_caveat_next_step_and_bands():
    stream = io.StringIO()

    throughput_forecast_answer(predict_throughput(TEXT, (64, 128))).write(
        "terminal", stream, width=100
    )

    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert "\n".join(lines) + "\n" == EXPECTED


def test_a_terminal_of_80_columns_shows_every_number_whole():
    stream, large = io.StringIO(), ["8:150872 16:296679 32:512828 64:1023870"]

    throughput_forecast_answer(predict_throughput(large, (128, 4096))).write(
        "terminal", stream, width=80
    )

    text = stream.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("  4,096  ", "66.2 (34 to 99)", "(1,673,712 to 2,267,479)"):
        assert whole in text


def test_json_holds_every_number_and_its_seed():
    stream = io.StringIO()

    throughput_forecast_answer(predict_throughput(TEXT, (64, 128))).write("json", stream)

    content = json.loads(stream.getvalue())
    assert content["schema_version"] == 1
    assert [row["np"] for row in content["throughput_forecast"]] == [64, 128]
    assert [row["np"] for row in content["throughput_scaling"]] == [1, 8, 16, 32]
    assert content["limits"][0]["scenario"] == ""
    assert content["measure_next"][0]["np"] == 64
    assert content["target"] == 0.8
    assert isinstance(content["seed"], int)


def test_csv_holds_the_rows():
    stream = io.StringIO()

    throughput_forecast_answer(predict_throughput(TEXT, (64, 128))).write("csv", stream)

    head, *rows = stream.getvalue().splitlines()
    assert head.startswith("series,np,baseline_np,extrapolation,efficiency_p5,")
    assert [row.split(",")[1] for row in rows] == ["64", "128"]
