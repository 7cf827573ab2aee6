"""A self-test as text and as JSON."""

import io
import json
from dataclasses import replace

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
from hvdprof.report.answers.selftest import selftest_answer

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
