import io

import pytest

from hvdprof.report.sections.caused_wait import caused_wait_sections
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep, with_a_straggler


def printed(analysis, width=80):
    stream = io.StringIO()
    TerminalReporter(width).render(analysis, stream)
    return stream.getvalue()


@pytest.mark.slow
def test_every_rank_of_the_verdicts_cell_has_a_row(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))

    (section,) = caused_wait_sections(analysis)

    assert sorted(row[0] for row in section.rows) == ["0", "1"]
    assert "mean of 3 launches" in section.caption
    assert "Who waited for whom" in printed(analysis)


@pytest.mark.slow
def test_many_ranks_are_cut_and_counted(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 12: 14.0}, blocked_ms={12: 3.0}))

    (section,) = caused_wait_sections(analysis)

    assert len(section.rows) == 8
    assert "4 more ranks: --section caused_wait." in section.note


@pytest.mark.heavy
def test_the_costliest_rank_comes_first(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 4: 14.0}, blocked_ms={4: 3.0}))
    caused_wait = analysis.table("caused_wait")
    caused_wait.loc[caused_wait["rank"] == 2, "cost_ns"] = 9e6

    (section,) = caused_wait_sections(analysis)
    assert section.rows[0][0] == "2"


def test_without_recordings_nothing_is_printed():
    assert caused_wait_sections(finished_analysis.analysis()) == ()


@pytest.mark.heavy
def test_the_table_fits_eighty_columns(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))

    section = printed(analysis).split("Who waited for whom")[1].split("\n\n")[0]

    assert max(map(len, section.splitlines())) <= 80


@pytest.mark.heavy
def test_the_cost_of_a_rank_says_that_jitter_is_in_it(tmp_path):
    text = " ".join(printed(analysis_of(tmp_path / "run", with_a_straggler()), 120).split())
    assert "with jitter" in text
    assert "The waterfall leaves out a straggler's own jitter." in text


@pytest.mark.heavy
def test_the_footnote_names_no_straggler_where_there_is_none(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))
    text = " ".join(printed(analysis, 120).split())
    assert "Step-time cost: what all its delays add to the step. " in text
    assert "a straggler above" not in text
