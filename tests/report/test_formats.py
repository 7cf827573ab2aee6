import gzip
import io
import json
import re

import pandas as pd
import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.report.document.json_report import JsonReporter
from hvdprof.report.format_names import Format
from hvdprof.report.formats import REPORTERS, CsvReporter, reporter_for, write_with
from tests.builders.finished_analysis import analysis, full_analysis
from tests.builders.traced_run import traced_run


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("terminal", "terminal"),
        ("json", "json"),
        ("csv", "csv"),
        ("chrome", "chrome"),
        ("result.txt", "terminal"),
        ("result.json", "json"),
        ("results/scaling.csv.gz", "csv"),
        ("report.html", "html"),
        ("report.md", "markdown"),
        ("trace.json", "chrome"),
        ("np2.trace.json.gz", "chrome"),
    ],
)
def test_a_name_or_a_file_chooses_the_format(wanted, name):
    assert reporter_for(wanted).name == name


def test_every_format_has_one_reporter():
    assert [reporter.name for reporter in REPORTERS] == list(Format)


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"'result\.pdf'") as error:
        reporter_for("result.pdf")
    assert "terminal, json, csv, html, markdown, chrome" in error.value.hint


@pytest.mark.heavy
@pytest.mark.parametrize("reporter", REPORTERS, ids=lambda reporter: reporter.name)
@pytest.mark.parametrize("make", [analysis, full_analysis], ids=["small", "full"])
def test_every_format_writes_every_analysis(reporter, make):
    out = io.StringIO()
    reporter().render(make(run=traced_run()), out)
    assert "resnet18" in out.getvalue()
    text = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", out.getvalue(), flags=re.DOTALL)
    assert not re.search(r"\bnan\b", text, flags=re.IGNORECASE)


def test_written_whole_and_never_over_another_file(tmp_path):
    path = tmp_path / "new" / "result.json.gz"
    write_with(JsonReporter(), analysis(), path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        assert json.load(file)["schema_version"] == 2
    with pytest.raises(StorageError, match="exists"):
        write_with(JsonReporter(), analysis(), path)
    write_with(JsonReporter(), analysis(), path, overwrite=True)
    assert list(path.parent.iterdir()) == [path]


def rendered(finished):
    out = io.StringIO()
    CsvReporter().render(finished, out)
    return out.getvalue()


def test_a_line_a_cell():
    lines = rendered(analysis()).splitlines()
    assert lines[0] == ",".join(SCALING.column_names)
    assert lines[1].startswith(
        "resnet18,1,torch,none,average,16,16.0,16.0,612.0,607.0,617.0,26100000.0,"
    )
    assert lines[1].count(",,") > 0
    assert len(lines) == 3


def test_reading_it_back_gives_the_table():
    finished = full_analysis()
    table = pd.read_csv(io.StringIO(rendered(finished)))
    pd.testing.assert_frame_equal(SCALING.frame(table), finished.scaling)
