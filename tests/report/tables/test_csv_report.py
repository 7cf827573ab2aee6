import io

import pandas as pd

from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.report.tables.csv_report import CsvReporter
from tests.builders.finished_analysis import analysis, full_analysis


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
