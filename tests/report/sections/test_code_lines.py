import io

import pandas as pd
import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.cause_names import code_place, place_of
from hvdprof.report.sections.code_lines import caused_wait_sections, line_sections
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.analyze.causes.test_line_causes import PLANTED, planted_in, slow_rank
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.sampled_lines import with_samples


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Rank 1 takes 30 ms more in its data phase."""
    return slow_rank(tmp_path_factory.mktemp("run"), 30.0)


def test_the_line_behind_a_cause_stands_first(run):
    causes, lines = line_sections(analyze_run(with_samples(run, PLANTED, planted_in("data", 30.0))))
    assert causes.title == "Lines of code"
    name, place, _, against, *_, file = causes.rows[0]
    assert (name, place) == (
        "straggler: rank 1, data phase",
        "transforms.py:41 (Dataset.__getitem__)",
    )
    assert against == "other ranks"
    assert file == PLANTED[0]
    assert len(lines.rows) == 8
    assert lines.rows[0][:3] == ("0", "backward", "train.py:32 (main)")
    assert not lines.sentences


def test_a_cause_without_a_line_is_said(run):
    sections = line_sections(analyze_run(with_samples(run, hz=0.5)))
    assert [section.title for section in sections] == ["Lines with the most time"]
    assert sections[0].sentences == (
        'No line for "straggler: rank 1, data phase": too few samples, or no single line.',
    )


def test_a_table_without_lines_is_not_headed_as_one(run):
    (section,) = line_sections(analyze_run(with_samples(run, hz=0.2)))
    assert (section.title, section.rows, section.note) == ("Lines of code", (), "")
    assert section.sentences == (
        "The steps have too few samples for the time of any line: train longer, or raise --lines.",
    )


def test_late_samples_are_said(run):
    sampled = with_samples(run)
    whole = sampled.table("line_sampling")
    late = sampled.extended(
        {"line_sampling": whole.assign(late_ns=15_000_000 * whole["samples"])}, ()
    )
    assert (
        line_sections(analyze_run(late))[-1]
        .sentences[-1]
        .startswith("Samples came late by 30 % of the time: calls in C")
    )


def test_samples_between_the_steps_are_late_without_a_word(run):
    sampled = with_samples(run)
    whole = sampled.table("line_sampling")
    beside = whole.assign(step=-1, steps=0, late_ns=15_000_000 * whole["samples"])
    both = sampled.extended({"line_sampling": pd.concat([whole, beside], ignore_index=True)}, ())
    said = " ".join(line_sections(analyze_run(both))[-1].sentences)
    assert "came late" not in said


def test_nothing_is_shown_without_samples(tmp_path):
    run = load_run(write_run(tmp_path, [PassSpec(size=2, segments=[SegmentSpec()])]))
    assert line_sections(analyze_run(run)) == ()


def test_names_of_lines():
    assert code_place("/a/b/train.py", 7, "main") == "train.py:7 (main)"
    assert code_place("C:\\job\\train.py", 7, "") == "train.py:7"
    assert code_place("In [3]", 7, "main") == "In [3]:7 (main)"
    assert code_place("", 0, "PIL/Image.py decode") == "PIL/Image.py decode"
    exact = {"file": "/a/train.py", "line": 57, "function": "", "leaf": "torch.save"}
    assert place_of(exact) == "train.py:57 (torch.save)"


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


@pytest.mark.heavy
def test_the_share_of_a_rank_is_that_of_the_mean_step(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))
    launches, caused_wait = analysis.table("launches"), analysis.table("caused_wait")
    slow = caused_wait["pass_id"].astype(str).iloc[-1]
    # 10 ms of one step of 100 ms, none of two of 10 ms.
    launches["step_time_ns"] = 10e6
    launches.loc[launches["pass_id"].astype(str) == slow, "step_time_ns"] = 100e6
    caused_wait["cost_ns"] = 0.0
    caused_wait.loc[caused_wait["pass_id"].astype(str) == slow, "cost_ns"] = 10e6
    caused_wait["cost_share"] = 0.0

    (section,) = caused_wait_sections(analysis)
    assert {row[5] for row in section.rows} == {"3.33 ms 8.3 %"}


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
