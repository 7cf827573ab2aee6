import math

import pytest

from benchmarks.script_fault_cases import (
    CASES,
    INPUT_BOUND,
    PAUSE,
    PERIODIC,
    PERSISTENT,
    SCRIPTS,
    STRAGGLER,
    Case,
    Truth,
)
from benchmarks.script_fault_judgement import Named, Said, judge, read
from benchmarks.script_faults import ROOT, lost, table

STEP_NS = 80e6
STEPS = tuple(range(5, 55))
SLOW = Case(
    what="one rank",
    script="gan",
    fault="backward:rank=1:ms=30",
    truth=Truth(kind=STRAGGLER, ranks=(1,), phases=("backward",), pattern=PERSISTENT),
)
EVERY_10TH = Case(
    what="rank 0",
    script="gan",
    fault="pause:rank=0:ms=300:every=10",
    truth=Truth(kind=STRAGGLER, ranks=(0,), phases=("outside",), pattern=PERIODIC, period=10),
)
CLEAN = Case(what="clean", script="gan")


def cause(**changes):
    fields = {
        "kind": STRAGGLER,
        "ranks": (1,),
        "is_any": False,
        "phase": "backward",
        "pattern": PERSISTENT,
        "period": math.nan,
        "cost_ns": 29e6,
    }
    return Named(**(fields | changes))


def said(*named, findings=(), headline=""):
    return Said(tuple(named), tuple(findings), headline, STEP_NS, STEPS)


def lost_by(rank, steps, seconds):
    return {rank: dict.fromkeys(steps, seconds)}


def test_all_of_it_right():
    text = "2 ranks: 150 samples/s. Largest loss: straggler rank 1, backward phase."
    found = said(cause(), findings=[(STRAGGLER, "Straggler: rank 1")], headline=text)

    verdict = judge(SLOW, found, lost_by(1, STEPS, 0.03))

    assert verdict.is_right
    assert verdict.cost_error == pytest.approx(-1 / 30)


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ([], {"ranks", "phase", "pattern", "cost"}),
        ([cause(ranks=(0,))], {"ranks", "phase", "pattern", "cost", "alone"}),
        ([cause(ranks=(0, 1))], {"ranks", "phase", "pattern", "cost", "alone"}),
        ([cause(phase="data")], {"phase"}),
        ([cause(pattern=PERIODIC, period=2.0)], {"pattern"}),
        ([cause(cost_ns=35e6)], {"cost"}),
        ([cause(), cause(kind=PAUSE, ranks=(0, 1))], {"alone"}),
        ([cause(cost_ns=15e6), cause(cost_ns=15e6, phase="data")], {"phase", "alone"}),
    ],
)
def test_what_is_wrong(named, wrong):
    found = said(*named, headline="The largest loss is rank 1 in its backward phase.")

    verdict = judge(SLOW, found, lost_by(1, STEPS, 0.03))

    parts = ("ranks", "phase", "pattern", "cost", "alone", "headline")
    assert {part for part in parts if getattr(verdict, part) is False} == wrong


def test_a_shadow_in_the_findings_is_a_second_name():
    shadow = ("compute slowdown", "Compute slowdown")
    found = said(cause(), findings=[(STRAGGLER, "Straggler"), shadow], headline="rank 1 backward")

    assert not judge(SLOW, found, lost_by(1, STEPS, 0.03)).alone


@pytest.mark.parametrize(
    ("headline", "is_named"),
    [
        ("the largest loss is rank 0, between steps", True),
        ("ranks 1 and 2 pause between steps", False),
        ("all ranks pause between steps", False),
        ("the largest loss is rank 10, between steps", False),
        ("the largest loss is exposed communication", False),
    ],
)
def test_the_first_lines_have_to_name_rank_and_phase(headline, is_named):
    steps = range(9, 55, 10)
    found = said(
        cause(ranks=(0,), phase="outside", pattern=PERIODIC, period=10.0, cost_ns=30e6),
        headline=headline,
    )

    verdict = judge(EVERY_10TH, found, lost_by(0, steps, 0.3))

    assert verdict.headline is is_named
    # A pause behind step 9 delays step 10: 5 of 50 steps.
    assert verdict.cost_error == pytest.approx(0)
    assert verdict.pattern


@pytest.mark.parametrize(("period", "is_right"), [(10.4, True), (5.0, False), (math.nan, False)])
def test_the_period_has_to_be_right(period, is_right):
    found = said(cause(ranks=(0,), phase="outside", pattern=PERIODIC, period=period))

    assert judge(EVERY_10TH, found, {}).pattern is is_right


def test_a_small_cost_is_not_judged():
    verdict = judge(SLOW, said(cause(cost_ns=9e6)), lost_by(1, STEPS, 0.003))

    assert verdict.cost is None
    assert verdict.cost_error == pytest.approx(2)


def test_nothing_may_be_named_in_a_clean_twin():
    assert judge(CLEAN, said(), {}).is_right
    assert not judge(CLEAN, said(cause()), {}).is_right
    assert not judge(CLEAN, said(findings=[(PAUSE, "Stalled steps")]), {}).is_right


def test_input_of_all_ranks_is_said_by_a_finding_and_names_no_rank():
    case = Case(
        what="input",
        script="gan",
        truth=Truth(kind=INPUT_BOUND, ranks=(0, 1), phases=("data",), pattern=PERSISTENT),
    )
    finding = (INPUT_BOUND, "Input-bound: every rank waits for data")
    text = "The largest loss: all ranks wait for data."

    assert judge(case, said(findings=[finding], headline=text), {}).is_right
    assert not judge(case, said(cause(), findings=[finding], headline=text), {}).alone
    assert not judge(case, said(), {}).ranks


def test_cases_have_names_of_their_own_and_all_scripts_a_clean_twin():
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.script for case in CASES if not case.fault} == set(SCRIPTS)
    folder = ROOT / "benchmarks/scripts"
    shared = {"__init__", "fault", "slowdown", "tuned_job", "soaked_ddp"}
    shared |= {"profiled_training", "unmodified_training", "drawn", "priority"}
    shared |= {"lined", "lined_parts"}
    assert {path.stem for path in folder.glob("*.py")} - shared == set(SCRIPTS)


def test_the_table_counts_and_lists_what_was_missed():
    right = judge(SLOW, said(cause(), headline="rank 1 backward"), lost_by(1, STEPS, 0.03))
    missed = said(cause(phase="data", cost_ns=60e6), findings=[(STRAGGLER, "Straggler: rank 1")])
    wrong = judge(SLOW, missed, lost_by(1, STEPS, 0.03))

    text = table([(SLOW, said(cause()), right), (SLOW, missed, wrong)])

    assert "| one rank | 2 | 2 | 2 of 2 | 1 of 2 | 2 of 2 | 1 of 2 | 2 of 2 | 1 of 2 |" in text
    assert "All of it right: 1 of 2 launches." in text
    assert "`backward:rank=1:ms=30` | right phase, cost +100%, named in the first lines" in text
    assert 'straggler 1 data persistent 60.0 ms; "Straggler: rank 1"' in text


def test_what_scripts_wrote_down_is_added_up(tmp_path):
    (tmp_path / "np4-rank2.csv").write_text("7,0.010000\n7,0.020000\n9,0.5\n")
    (tmp_path / "np1-rank0.csv").write_text("7,9.0\n")

    assert lost(tmp_path, 4) == {2: {7: pytest.approx(0.03), 9: 0.5}}


def test_public_keys_of_the_json_are_read():
    def waterfall(np, term, ranks="", **more):
        fields = {"phase": "", "pattern": "", "period_steps": None, "time_ns": 5e6} | more
        return {"np": np, "term": term, "ranks": ranks, **fields}

    def step(pass_id, number, steady=True):
        return {"pass_id": pass_id, "step": number, "steady": steady, "dur_ns": 80e6}

    report = {
        "verdict": {"sentence": "4 ranks: 100 samples/s."},
        "findings": [
            {"id": "input-bound", "title": "Input-bound", "np": 4},
            {"id": "input-bound", "title": "Input-bound", "np": 1},
            {"id": "exposed-transfer", "title": "Exposed transfer", "np": 4},
        ],
        "tables": {
            "job_steps": [
                step("01-np1-throughput-r1", 3),
                step("02-np4-throughput-r1", 5),
                step("02-np4-throughput-r1", 6, steady=False),
                step("03-np4-trace-r1", 7),
            ],
            "waterfall": [
                waterfall(1, "pause", "all"),
                waterfall(4, "straggler", "1, 3", phase="data", pattern="persistent"),
                waterfall(4, "straggler", "any", pattern="irregular"),
                waterfall(4, "pause", "all", pattern="periodic", period_steps=8.0),
                waterfall(4, "jitter"),
            ],
        },
    }

    found = read(report, 4)

    assert [one.ranks for one in found.named] == [(1, 3), (0, 1, 2, 3), (0, 1, 2, 3)]
    assert [one.is_any for one in found.named] == [False, True, False]
    assert math.isnan(found.named[0].period)
    assert found.named[2].period == 8
    assert found.findings == ((INPUT_BOUND, "Input-bound"),)
    assert (found.step_ns, found.steps) == (80e6, (5,))
