"""Every format of a comparison, against golden texts of a comparison with known numbers."""

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.model.cause_names import change_sentence
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.results.comparison import ComparisonOutcome
from hvdprof.model.tables.comparison_tables import MOVED_CAUSES
from hvdprof.report.answers.comparison_formats import SUFFIXES, comparison_answer
from hvdprof.report.ci_formats import MOST_SUMMARY_BYTES, SUMMARY_VARIABLE
from hvdprof.report.document.section_markdown import escaped, with_code
from hvdprof.report.format_names import ComparisonFormat
from hvdprof.report.formats import format_of_file
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_comparison import comparison
from tests.builders.written import written as written_answer

TERMINAL = """\
REGRESSED: resnet18 on 2 ranks: step time +6.1 % (+4.2 to +8.1).
Largest part: exposed transfer, 5.20 ms (4.10 to 6.30) per step.
Caveat: Measured one after the other: a drift of the machine counts as a change.
  before (first) and after (second)

Gate
  step_time>2%: failed by resnet18 on 2 ranks

resnet18 on 2 ranks  3 and 4 launches
  metric                first   second            change (90 % CI)       outcome
  step time           85.2 ms  90.4 ms       +6.1 % (+4.2 to +8.1)     regressed
  scaling efficiency   84.2 %   79.4 %  -4.8 points (-7.1 to -2.5)  inconclusive

What moved  resnet18 on 2 ranks
  Time per step by cause; causes that are not shown are in the sum.
                                                              beyond
  cause               first   second    difference (95 % CI)  chance
  exposed transfer  10.0 ms  15.2 ms  5.20 ms (4.10 to 6.30)     yes
  sum: step time    85.2 ms  90.4 ms                 5.20 ms

What differs
  environment: HOROVOD_CYCLE_TIME: unset -> 5
"""


def written(name, value, **given):
    return written_answer(comparison_answer(value), name, **given)


@pytest.mark.heavy
def test_every_format_has_what_writes_it():
    for name in ComparisonFormat:
        assert "resnet18" in written(name, comparison())


def test_the_terminal_leads_with_the_verdict():
    lines = written("terminal", comparison(), width=80).splitlines()
    assert [line.rstrip() for line in lines] == TERMINAL.splitlines()


@pytest.mark.parametrize(
    ("known", "launches", "said"),
    [
        (True, (3, 4), "No cause differs significantly."),
        (False, (1, 1), "Whether a cause differs is unknown: one launch each."),
        (False, (3, 1), "Whether a cause differs is unknown: one launch in the second run."),
    ],
)
def test_without_a_cause_it_says_whether_one_was_tested(known, launches, said):
    value = comparison(outcome=ComparisonOutcome.INCONCLUSIVE)
    causes = value.causes.assign(moved=False, significant=False)
    if not known:
        causes = causes.assign(low_ns=float("nan"), high_ns=float("nan"))
    cells = value.cells.assign(num_first=launches[0], num_second=launches[1])
    assert said in written("terminal", replace(value, causes=causes, cells=cells))
    untested = replace(value, causes=causes.iloc[:0])
    assert "What moved" not in written("markdown", untested)


def test_json_keeps_every_digit_and_has_no_nan():
    content = json.loads(written("json", comparison()))
    assert content["outcome"] == "regressed"
    assert content["cells"][0]["change"] == 0.061
    assert content["gate"] == [
        {
            "condition": "step_time>2%",
            "metric": "step_time",
            "margin": 0.02,
            "outcome": "regressed",
            "cells": ["resnet18 on 2 ranks"],
            "not_judged": [],
        }
    ]
    assert content["first"] == {
        "name": "before",
        "created_at": "2026-11-20T22:48:41+00:00",
        "commit": "aaaa",
    }
    assert content["cells"][1]["launches_needed"] == 9


def with_a_slower_rank():
    """Rank 1 takes 5.60 ms longer in forward, which costs all of the 5.20 ms."""
    row = {
        "term": "rank-change",
        "ranks": "1",
        "phase": "forward",
        "pattern": "persistent",
        "one_ns": 0.0,
        "other_ns": 5.2e6,
        "difference_ns": 5.2e6,
        "low_ns": 4.1e6,
        "high_ns": 6.3e6,
        "significant": True,
        "moved": True,
        "own_change_ns": 5.6e6,
        "own_change_low_ns": 4.9e6,
        "own_change_high_ns": 6.3e6,
    }
    value = comparison()
    names = dict(zip(CELL_KEY, value.causes[list(CELL_KEY)].iloc[0], strict=True))
    same = names | {"term": "forward", "one_ns": 85.2e6, "other_ns": 85.2e6, "difference_ns": 0.0}
    causes = declared_rows(MOVED_CAUSES, names | row, same)
    return replace(value, causes=causes, sentence=f"REGRESSED: {change_sentence(row)}")


def test_every_format_for_readers_names_the_rank_that_changed(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    value = with_a_slower_rank()
    sentence = (
        "Rank 1 is slower in forward by 5.60 ms (4.90 to 6.30), which costs 5.20 ms per step."
    )
    texts = {name: written(name, value) for name in ComparisonFormat}

    for name in (ComparisonFormat.TERMINAL, ComparisonFormat.MARKDOWN, ComparisonFormat.GITHUB):
        assert "rank 1 slower in forward" in texts[name]
    for name in set(ComparisonFormat) - {ComparisonFormat.CSV}:
        assert sentence in " ".join(texts[name].split())
    row, rest = json.loads(texts[ComparisonFormat.JSON])["causes"]
    assert (row["term"], row["ranks"], row["phase"]) == ("rank-change", "1", "forward")
    assert row["own_change_ns"] == 5.6e6
    assert rest["own_change_ns"] is None


def test_junit_fails_the_metric_of_the_gate():
    root = ET.fromstring(written("junit", comparison()))
    suite = root.find("testsuite")
    assert suite.attrib | {"name": ""} == {
        "name": "",
        "tests": "2",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
    }
    gate, case = suite.findall("testcase")
    assert gate.attrib == {"classname": "gate", "name": "step_time>2%"}
    assert gate.find("failure").attrib["message"].endswith("failed by resnet18 on 2 ranks")
    assert case.attrib == {"classname": "resnet18 on 2 ranks", "name": "step_time"}
    assert case.find("failure").attrib["message"].startswith("step time +6.1 % (+4.2 to +8.1)")


@pytest.mark.parametrize(
    "outcome", [ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.NOT_COMPARABLE]
)
def test_junit_skips_what_is_not_decided(outcome):
    value = comparison(outcome=outcome, reason="torch \x1b[31m2.4\x00")
    root = ET.fromstring(written("junit", value))
    of_gate, of_cell = root.findall("testsuite/testcase/skipped")
    assert of_gate.attrib["message"] == f"step_time>2%: {outcome}"
    assert of_cell.attrib["message"] == f"{outcome}: torch ?[31m2.4?"


def test_junit_says_how_many_launches_would_decide():
    value = comparison(outcome=ComparisonOutcome.INCONCLUSIVE)
    value = replace(value, cells=value.cells.assign(launches_needed=9))
    root = ET.fromstring(written("junit", value))
    _, of_cell = root.findall("testsuite/testcase/skipped")
    assert "measure both with --repeats 9" in of_cell.attrib["message"]


def test_a_mean_that_fails_the_gate_fails_junit_and_github(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    value = comparison(outcome=ComparisonOutcome.INCONCLUSIVE)
    failed = replace(
        value.gate[0], outcome=ComparisonOutcome.REGRESSED, cells=("the mean of all cells",)
    )
    value = replace(value, gate=(failed,))

    suite = ET.fromstring(written("junit", value)).find("testsuite")
    assert suite.attrib["failures"] == "1"
    assert "::error title=hvdprof compare::step_time>2%25: failed by the mean of all cells" in (
        written("github", value)
    )


def test_without_a_gate_nothing_is_an_error(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    out = written("github", replace(comparison(), gate=()))
    assert out.startswith("::warning title=hvdprof compare::REGRESSED")
    assert "::error" not in out


def test_github_prints_annotations_and_appends_the_summary(tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv(SUMMARY_VARIABLE, str(summary))

    lines = written("github", comparison()).splitlines()

    assert lines == [
        "::warning title=hvdprof compare::REGRESSED: resnet18 on 2 ranks: step time +6.1 %25 (+4.2 "
        "to +8.1). Largest part: exposed transfer, 5.20 ms (4.10 to 6.30) per step.",
        "::error title=hvdprof compare::step_time>2%25: failed by resnet18 on 2 ranks",
        "::error title=resnet18 on 2 ranks::step time +6.1 %25 (+4.2 to +8.1)",
    ]
    assert summary.read_text().startswith("before\n**REGRESSED: resnet18 on 2 ranks")


@pytest.mark.heavy
def test_github_stays_within_the_limits(tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv(SUMMARY_VARIABLE, str(summary))
    value = comparison(cells=40, notes=["x" * 2_000_000])

    lines = written("github", value).splitlines()

    assert sum(line.startswith("::error") for line in lines) == 10
    assert summary.stat().st_size <= MOST_SUMMARY_BYTES


def test_github_without_a_summary_prints_the_page(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    assert "| step time | 85.2 ms |" in written("github", comparison())


def test_a_summary_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "no" / "summary.md"))
    with pytest.raises(StorageError, match="summary"):
        written("github", comparison())


def test_markdown_escapes_what_names_may_hold():
    page = written("markdown", comparison(model="a|b_*<c>"))
    assert "### a\\|b\\_\\*\\<c\\> on 2 ranks: 3 and 4 launches" in page


def test_csv_has_a_line_a_run_and_a_column_a_metric():
    rows = list(csv.DictReader(io.StringIO(written("csv", comparison()))))
    assert rows == [
        {
            "time": "2026-11-20T22:48:41+00:00",
            "commit": "aaaa",
            "run": "before",
            "resnet18_np2_horovod_step_time_ns": "85200000.0",
            "resnet18_np2_horovod_efficiency": "0.842",
        },
        {
            "time": "2026-11-21T22:48:41+00:00",
            "commit": "bbbb",
            "run": "after",
            "resnet18_np2_horovod_step_time_ns": "90400000.0",
            "resnet18_np2_horovod_efficiency": "0.794",
        },
    ]


def test_a_file_name_chooses_the_format(tmp_path):
    assert format_of_file(tmp_path / "gate.xml", SUFFIXES, "a comparison") is ComparisonFormat.JUNIT
    assert (
        format_of_file(tmp_path / "gate.json.gz", SUFFIXES, "a comparison") is ComparisonFormat.JSON
    )
    with pytest.raises(UsageError, match=r"gate\.pdf"):
        format_of_file(tmp_path / "gate.pdf", SUFFIXES, "a comparison")


@pytest.mark.heavy
def test_the_terminal_gives_a_reason_once():
    refused = comparison(cells=3, outcome=ComparisonOutcome.NOT_COMPARABLE, reason="other load")

    of_cells = written("terminal", replace(refused, outcome=ComparisonOutcome.INCONCLUSIVE))
    of_whole = written(
        "terminal", replace(refused, sentence="NOT COMPARABLE: other load. Add --force.")
    )

    assert of_cells.count("other load") == 3
    assert of_whole.count("other load") == 1


def test_commands_stay_code_in_markdown_and_the_rest_means_nothing():
    assert with_code("Run `a_b |  c` on a_b <x>.") == r"Run `a_b | c` on a\_b \<x\>."
    assert with_code("a ` b") == r"a \` b"
    assert with_code("``") == r"\`\`"


def test_a_text_of_markdown_is_one_line_without_control_characters():
    assert escaped("{a}\tb\n  c\x1b[2J") == r"\{a\} b c\\x1b\[2J"
