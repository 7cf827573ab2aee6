"""What became of the limits of a run, as Markdown, JUnit and annotations of GitHub."""

import io
from xml.etree import ElementTree as ET

import pytest

from hvdprof.model.limits import LimitOutcome, LimitResult
from hvdprof.report.ci_formats import MOST_ANNOTATIONS, SUMMARY_VARIABLE, render_limits
from hvdprof.report.format_names import GATE_SUFFIXES, GATES, AnalysisFormat
from tests.builders.finished_analysis import analysis

FAILED = LimitResult("efficiency<80%", LimitOutcome.FAILED, "resnet18 on 8 ranks: 60.0 ± 2.0 %")
PASSED = LimitResult("straggler>10%", LimitOutcome.PASSED, "a|b on 8 ranks: 2.0 ± 1.0 %")
UNDECIDED = LimitResult("input>5%", LimitOutcome.UNDECIDED, "resnet18 on 8 ranks: 5.0 ± 2.0 %")


def written(format_, *results):
    out = io.StringIO()
    render_limits(analysis(), results, format_, out)
    return out.getvalue()


def test_markdown_has_the_verdict_and_a_row_a_limit():
    page = written(AnalysisFormat.MARKDOWN, FAILED, PASSED)
    first, _, *rows = page.splitlines()
    assert first.strip("*") in analysis().verdict.sentence.replace("|", "\\|")
    assert rows == [
        "| limit | outcome | cells |",
        "| --- | --- | --- |",
        "| efficiency\\<80% | failed | resnet18 on 8 ranks: 60.0 ± 2.0 % |",
        "| straggler\\>10% | passed | a\\|b on 8 ranks: 2.0 ± 1.0 % |",
    ]


def test_junit_fails_what_failed_and_skips_what_is_undecided():
    suite = ET.fromstring(written(AnalysisFormat.JUNIT, FAILED, PASSED, UNDECIDED))[0]
    counts = [suite.attrib[name] for name in ("tests", "failures", "skipped", "errors")]
    assert counts == ["3", "1", "1", "0"]
    failed, passed, undecided = suite.findall("testcase")
    assert failed.find("failure").attrib["message"] == FAILED.sentence
    assert list(passed) == []
    assert undecided.find("skipped").attrib["message"] == UNDECIDED.sentence
    assert suite.find("system-out").text == analysis().verdict.sentence


def test_github_has_an_annotation_a_limit_and_the_page_in_the_summary(tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv(SUMMARY_VARIABLE, str(summary))
    lines = written(AnalysisFormat.GITHUB, PASSED, UNDECIDED, FAILED).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::notice", "::warning", "::error"]
    assert lines[-1] == (
        "::error title=hvdprof analyze::efficiency<80%25 failed: "
        "resnet18 on 8 ranks: 60.0 ± 2.0 %25"
    )
    assert summary.read_text() == written(AnalysisFormat.MARKDOWN, PASSED, UNDECIDED, FAILED)


def test_github_shows_no_more_of_a_kind_than_the_runner(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    lines = written(AnalysisFormat.GITHUB, *[PASSED] * 40, FAILED).splitlines()
    assert sum(line.startswith("::notice") for line in lines) == MOST_ANNOTATIONS
    assert sum(line.startswith("::error") for line in lines) == 1
    assert lines[-2].startswith("| straggler")


@pytest.mark.parametrize("format_", GATES)
def test_every_format_of_a_gate_is_written(format_, monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    assert "resnet18 on 8 ranks" in written(format_, FAILED)
    assert set(GATE_SUFFIXES.values()) <= set(GATES)


def test_every_format_says_what_would_decide(monkeypatch):
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)
    advice = "Measure with --repeats 3, or more."
    undecided = LimitResult("input>5%", LimitOutcome.UNDECIDED, "a on 8 ranks: 5 %", advice)
    for format_ in GATES:
        assert advice in written(format_, undecided)
