"""A self-test as text and as JSON."""

import io
import json
from dataclasses import replace

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.results.selftest import (
    CaseOutcome,
    CaseResult,
    ClockCheck,
    LiveTimes,
    MarkAgreement,
    NamedRank,
    RecorderCost,
    Selftest,
    SelftestCase,
    judged,
)
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.report.answers.selftest import net_answer, selftest_answer
from tests.builders.declared_rows import declared_rows
from tests.builders.net_recording import link, net_recording, of_hosts
from tests.builders.run_directory import write_run

LATE = SelftestCase(name="12 ms in backward", rank=1, phase="backward", amount_ns=12e6)
CLOCKS = ClockCheck(
    num_compared=2, num_known=2, num_within=2, largest_bound_ns=12_500.0, largest_error_ns=5_600.0
)
FOUND = judged(
    LATE, (NamedRank(rank=1, phase="backward", cost_ns=12.36e6),), STEP_NS := 72e6, CLOCKS
)
MISSED = replace(judged(LATE, (), STEP_NS, CLOCKS), attempts=2, other_cores=1.84)
OPEN = CaseResult(case=LATE, outcome=CaseOutcome.NOT_RUN, reason="--limit was reached")
MARK = MarkAgreement(
    name="backward", num=30, event_ns=6e6, profiler_ns=6.5e6, error_ns=5e5, agrees=False
)
COST = RecorderCost(
    model="mnist, batch 64",
    step_ns=18.6e6,
    direct_ns=45_300.0,
    cpu_ratio=1.018,
    cpu_ratio_low=0.993,
    cpu_ratio_high=1.047,
)
DONE = Selftest(
    num_ranks=2,
    hosts="",
    device="cpu",
    controller="gloo",
    engine="horovod",
    duration_s=97.0,
    cases=(FOUND,),
    recorder=COST,
    not_measured=("CUDA events against torch.profiler: no GPU is used here.",),
)


def text_of(selftest: Selftest) -> str:
    stream = io.StringIO()
    selftest_answer(selftest).write("terminal", stream, width=100)
    return stream.getvalue()


def test_the_table_has_result_errors_and_costs() -> None:
    lines = text_of(DONE).splitlines()
    assert lines[:2] == [
        "1 of 1 launches are judged correctly.",
        "  2 ranks on this host, cpu, Horovod (gloo); 1 min 37 s",
    ]
    row = next(line for line in lines if line.startswith("  12 ms in backward"))
    texts = "12 ms in backward|found|rank 1 in backward|+3 %|5.6 µs|12.5 µs"
    assert row.split() == texts.replace("|", " ").split()
    text = " ".join(" ".join(lines).split())
    assert (
        "Recorder 45 µs per step of mnist, batch 64, 0.24 % of 18.6 ms; processor time +1.8 % "
        "(95 % CI -0.7 to +4.7 %)." in text
    )
    assert "! Not measured: CUDA events against torch.profiler: no GPU is used here." in text


def test_a_rank_that_is_slow_between_steps_is_so_outside_all_phases() -> None:
    rank = NamedRank(rank=1, phase="outside", cost_ns=12e6)
    text = text_of(replace(DONE, cases=(replace(FOUND, named=(rank,)),)))
    assert "rank 1 outside all phases" in " ".join(text.split())


def test_what_is_wrong_or_open_is_said() -> None:
    text = " ".join(text_of(replace(DONE, cases=(FOUND, MISSED, OPEN), marks=(MARK,))).split())
    assert text.startswith(
        "1 of 2 launches are judged correctly; 1 launch without a result; CUDA events disagree "
        "with torch.profiler."
    )
    assert "missed (2nd try)" in text
    assert "! 12 ms in backward: --limit was reached" in text
    assert "Other processes kept up to 1.8 cores busy meanwhile." in text
    assert "backward 6.00 ms 6.50 ms 500 µs disagrees" in text


def test_a_watched_launch_has_the_times_of_its_events() -> None:
    live = LiveTimes(slow_s=40.0, named_after_s=22.4, cleared_after_s=None, num_false=0)
    watched = replace(
        FOUND, outcome=CaseOutcome.NOT_CLEARED, clocks=None, live=live, other_cores=0.9
    )
    text = " ".join(text_of(replace(DONE, cases=(watched,), recorder=None)).split())
    assert text.startswith("0 of 1 launches are judged correctly.")
    assert "named named after cleared after false names" in text
    assert "12 ms in backward named to the end rank 1 in backward 22 s - 0" in text
    assert "Other processes kept up to 0.9 cores busy" in text


def test_json_has_all_of_it_and_the_verdict() -> None:
    stream = io.StringIO()
    selftest_answer(replace(DONE, cases=(FOUND, OPEN))).write("json", stream)
    content = json.loads(stream.getvalue())
    assert (content["schema_version"], content["passed"], content["complete"]) == (1, True, False)
    first = content["cases"][0]
    assert (first["outcome"], first["case"]["amount_ns"]) == ("found", 12e6)
    assert first["named"] == [{"rank": 1, "phase": "backward", "cost_ns": 12.36e6}]
    assert content["recorder"]["direct_ns"] == 45_300.0


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
