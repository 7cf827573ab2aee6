import io
import re

import pyarrow as pa
import pytest

from hvdprof.report.tables.query_result import render_result

RESULT = pa.table(
    {
        "np": [2, 16],
        "tensor": ["gradient/" + 60 * "a" + "/0.weight", "gradient/" + 60 * "b" + "/1.bias"],
        "time_ns": [123456789012345, 5],
    }
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def rendered(monkeypatch, width, result=RESULT, stream=Terminal, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = stream()
    render_result(result, file, **options)
    plain = re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())
    return [line.rstrip() for line in plain.splitlines()]


def test_a_terminal_gets_whole_numbers_and_names_without_their_middle(monkeypatch):
    lines = rendered(monkeypatch, 60)
    assert max(map(len, lines)) <= 60
    assert lines[2].startswith(" 2   gradient/aaa")
    assert "…" in lines[2]
    assert lines[2].endswith("a/0.weight   123456789012345")
    assert lines[3].startswith("16 ")


def test_a_table_that_fits_no_terminal_is_one_line_a_column(monkeypatch):
    assert rendered(monkeypatch, 40, RESULT.slice(0, 1))[0] == "  np       2"
    assert rendered(monkeypatch, 40)[-1] == "  time_ns  5"
    assert rendered(monkeypatch, 200, vertical=True)[-1] == "  time_ns  5"


@pytest.mark.parametrize("width", [30, 200])
def test_elsewhere_nothing_is_shortened(monkeypatch, width):
    lines = rendered(monkeypatch, width, stream=io.StringIO)
    assert lines[2].split() == ["2", RESULT["tensor"][0].as_py(), "123456789012345"]
