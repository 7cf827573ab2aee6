import io
import json
from dataclasses import replace

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.report.answers.net import net_answer
from tests.builders.declared_rows import declared_rows
from tests.builders.net_recording import link, net_recording, of_hosts
from tests.builders.run_directory import write_run


@pytest.fixture
def analysed(tmp_path):
    """The analysis of a run in which only the network was measured."""

    def analysis_of(recording=None):
        write_run(tmp_path, [])
        if recording is not None:
            recording.write(tmp_path)
        return analyze_run(load_run(tmp_path))

    return analysis_of


def _text(analysis, width=None):
    stream = io.StringIO()
    net_answer(analysis).write("terminal", stream, width=width)
    return stream.getvalue()


def _json(analysis):
    stream = io.StringIO()
    net_answer(analysis).write("json", stream)
    return json.loads(stream.getvalue())


def _with_note(analysis, note):
    return replace(
        analysis, run=replace(analysis.run, notes=(Note(NoteCode.NET_UNMEASURED, note),))
    )


@pytest.mark.heavy
def test_every_link_is_a_row_with_its_interval(analysed):
    analysis = _with_note(analysed(net_recording()), "The network from h2 to h1 was not measured.")
    lines = _text(analysis).splitlines()
    assert [word for word in lines[0].split() if word] == [
        *("over", "between", "latency,", "ms", "bandwidth,", "MB/s")
    ]
    (tcp,) = [line for line in lines if line.startswith("  TCP")][:1]
    assert "h2 - h1" in tcp
    assert "0.0910 ± 0.003" in tcp
    assert tcp.rstrip().endswith("25.0 ± 0")
    assert any("median of 1.02 kB" in line and "up to 4.19 MB" in line for line in lines)
    assert any(line.split()[:4] == ["allreduce", "all", "2", "hosts"] for line in lines)
    assert lines[-1] == "  ! The network from h2 to h1 was not measured."


@pytest.mark.heavy
def test_without_a_fit_the_reason_is_printed(analysed):
    few = link("tcp", alpha_ns=1000, bytes_per_s=1e9, ends=(1, 0))[:2]
    assert "only 2 different payloads" in _text(analysed(net_recording(records=few)))


@pytest.mark.heavy
def test_nothing_measured(analysed):
    assert _text(analysed()).split("\n") == [
        "No network measurement here.",
        "Run `hvdprof net --hosts h1,h2`.",
        "",
    ]


@pytest.mark.heavy
def test_the_json_object_has_null_where_a_number_is_missing(analysed):
    few = link("tcp", alpha_ns=1000, bytes_per_s=1e9, ends=(1, 0))[:2]
    content = _json(_with_note(analysed(net_recording(records=few)), "a note"))
    assert content["schema_version"] == 2
    assert content["notes"] == ["a note"]
    assert content["findings"] == []
    (row,) = content["net_links"]
    assert row["bandwidth_gb_per_s"] is None
    assert row["latency_ns"] > 0


@pytest.mark.slow
def test_whose_link_is_slow_stands_below_the_links(analysed):
    analysis = analysed(of_hosts([1e8, 1e8, 2e7]))
    text = _text(analysis, width=80)
    links, _, found = text.partition("\nFindings\n")
    assert "h1 - h3" in links
    assert "  warning: Slow network link: h3\n    The best of 2 pairs with h3 reaches" in found
    assert "    > Run `ethtool DEVICE`" in found
    (row,) = _json(analysis)["findings"]
    assert list(row) == [column.name for column in FINDINGS.columns]
    assert (row["id"], row["severity"], row["subject"]) == ("slow-host-link", "warning", "h3")
    assert row["line"] is None


@pytest.mark.heavy
def test_a_host_that_is_far_is_named(analysed):
    far = of_hosts([1e9] * 4, delays_ns=(10_000, 10_000, 10_000, 900_000))
    assert "  note: High network latency: h4\n    A small message to h4 takes" in _text(
        analysed(far)
    )


@pytest.mark.heavy
def test_equal_links_give_no_finding(analysed):
    analysis = analysed(of_hosts([1e8] * 3))
    assert "Findings" not in _text(analysis)
    assert _json(analysis)["findings"] == []


@pytest.mark.heavy
def test_findings_on_the_job_are_left_to_the_analysis_of_the_run(analysed):
    analysis = analysed(of_hosts([1e8, 1e8, 2e7]))
    of_job = declared_rows(FINDINGS, {"id": "cache-off", "title": "The cache is off."})
    both = FINDINGS.frame([*of_job.to_dict("records"), *analysis.findings.to_dict("records")])
    analysis = replace(analysis, findings=both)
    assert "Slow network link: h3" in _text(analysis)
    assert "cache" not in _text(analysis)
    assert [row["id"] for row in _json(analysis)["findings"]] == ["slow-host-link"]
