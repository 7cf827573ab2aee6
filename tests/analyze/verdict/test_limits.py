"""Limits of one run: beyond doubt, or undecided by the interval."""

from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.analyze.verdict.limits import EFFICIENCY, TERM_OF, limit_results
from hvdprof.errors import InconclusiveError, RegressedError, UsageError
from hvdprof.model.limits import LimitOutcome
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.analyze.causes.test_cell_split import launches_with
from tests.builders.analysis import analysis_of
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import PLAIN, analysis, cell, torch_cell
from tests.builders.recorded_runs import unpacked
from tests.builders.running_command import hvdprof

NAN = float("nan")
FAILED, PASSED, UNDECIDED = LimitOutcome.FAILED, LimitOutcome.PASSED, LimitOutcome.UNDECIDED


def efficiency(np, value, low, high, **values):
    """A cell against Horovod on one rank."""
    ends = {"efficiency": value, "efficiency_low": low, "efficiency_high": high}
    return cell(np=np, baseline="horovod np=1", **ends, **values)


def unknown(np, **values):
    return efficiency(np, NAN, NAN, NAN, **values)


def term(np, name, share, low, high):
    place = {"model": "resnet18", "np": np, "engine": "horovod", **PLAIN}
    return place | {"term": name, "share": share, "share_low": low, "share_high": high}


def judged(limit, cells, terms=()):
    waterfall = {WATERFALL.name: declared_rows(WATERFALL, *terms)} if terms else {}
    (result,) = limit_results(analysis(cells, derived=waterfall), [limit])
    return result


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.6, 0.75, FAILED), (0.82, 0.9, PASSED), (0.75, 0.85, UNDECIDED), (0.8, 0.9, PASSED)],
)
def test_an_efficiency_is_judged_by_its_whole_interval(low, high, outcome):
    result = judged("efficiency<80%", [efficiency(4, (low + high) / 2, low, high)])
    assert result.outcome is outcome
    said = "is undecided" if outcome is UNDECIDED else outcome
    assert result.sentence.startswith(f"efficiency<80% {said}: resnet18 on 4 ranks: ")


def test_the_worst_cell_decides_and_is_named_alone():
    cells = [efficiency(2, 0.95, 0.94, 0.96), efficiency(8, 0.6, 0.58, 0.62)]
    result = judged("efficiency<80%", cells)
    assert result.sentence == "efficiency<80% failed: resnet18 on 8 ranks: 60.0 ± 2.0 %"


@pytest.mark.parametrize(
    "one",
    [
        efficiency(1, 1.0, 1.0, 1.0),
        efficiency(8, 0.3, 0.2, 0.4, oversubscribed=True),
        torch_cell(),
    ],
)
def test_the_baseline_and_cells_that_say_nothing_on_scaling_are_not_judged(one):
    result = judged("efficiency<80%", [one])
    assert result.outcome is UNDECIDED
    assert result.sentence.startswith("efficiency<80% is undecided: no cell is judged (more ranks")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("efficiency<80%", "no baseline to compare with"),
        ("jitter>90%", "no recorded steps"),
        ("straggler>90%", "no recorded steps"),
    ],
)
def test_a_cell_that_shows_nothing_does_not_pass_beside_one_that_does(limit, reason):
    shown = efficiency(2, 0.95, 0.94, 0.96)
    rows = [term(2, "jitter", 0.02, 0.01, 0.03)]
    assert judged(limit, [shown], rows).outcome is PASSED
    result = judged(limit, [shown, unknown(4)], rows)
    assert result.sentence == f"{limit} is undecided: resnet18 on 4 ranks: {reason}"


def test_steps_without_phases_do_not_pass_for_the_input():
    rows = [term(4, "jitter", 0.02, 0.01, 0.03)]
    assert judged("input>50%", [unknown(4)], rows).sentence.endswith("4 ranks: not recorded")


@pytest.mark.parametrize("name", TERM_OF)
@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.3, 0.5, FAILED), (0.0, 0.2, PASSED), (0.2, 0.4, UNDECIDED), (NAN, NAN, UNDECIDED)],
)
def test_a_share_of_the_step_is_judged_by_its_whole_interval(name, low, high, outcome):
    rows = [term(4, TERM_OF[name], 0.35, low, high)]
    assert judged(f"{name} > 25 %", [unknown(4)], rows).outcome is outcome


def test_of_several_stragglers_the_costliest_is_judged():
    rows = [term(4, "straggler", 0.06, 0.05, 0.07), term(4, "straggler", 0.3, 0.28, 0.32)]
    assert judged("straggler>10%", [unknown(4)], rows).outcome is FAILED


@pytest.mark.parametrize(("bound", "outcome"), [(10, PASSED), (5, PASSED), (3, UNDECIDED)])
def test_ranks_that_cost_less_than_five_percent_may_be_unnamed(bound, outcome):
    rows = [term(4, "jitter", 0.02, 0.01, 0.03)]
    result = judged(f"straggler>{bound}%", [unknown(4)], rows)
    assert result.outcome is outcome
    assert "no rank is named (from 5 % of the step on)" in result.sentence


def test_a_rank_without_a_name_that_costs_more_than_the_limit_leaves_it_open(tmp_path):
    # Now rank 1 is later, now rank 0.
    found = analysis_of(tmp_path, launches_with([(0.0, 19.0), (19.0, 0.0)]))
    assert "straggler" not in set(found.table("waterfall")["term"])
    (result,) = limit_results(found, ["straggler>10%"])
    assert result.outcome is UNDECIDED
    assert "no rank is named, but rank " in result.sentence

    # The cost is the share of the mean step that the tables show, not the mean of shares.
    before = float(result.sentence.partition(" costs ")[2].partition(" %")[0])
    found.launches["step_time_ns"] *= 3.0
    (longer,) = limit_results(found, ["straggler>10%"])
    after = float(longer.sentence.partition(" costs ")[2].partition(" %")[0])
    assert after == pytest.approx(before / 3, abs=1)


def test_without_recorded_steps_no_share_is_judged():
    result = judged("jitter>5%", [unknown(4)])
    assert (result.outcome, "4 ranks: no recorded steps" in result.sentence) == (UNDECIDED, True)


def test_one_launch_has_no_interval_and_decides_nothing():
    rows = [term(4, "jitter", 0.5, NAN, NAN)]
    result = judged("jitter>5%", [unknown(4, num_launches=1)], rows)
    assert result.outcome is UNDECIDED
    assert "resnet18 on 4 ranks: one launch has no interval" in result.sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("efficiency", "is no limit"),
        ("efficiency<0.8", "is no limit"),
        ("speed<80%", "nothing is called 'speed'"),
        ("efficiency>80%", "worse where it is smaller"),
        ("straggler<10%", "worse where it is larger"),
    ],
)
def test_what_is_no_limit_is_refused_with_an_example(text, message):
    with pytest.raises(UsageError, match=message) as refused:
        judged(text, [unknown(4)])
    assert any(name in str(refused.value.hint) for name in (EFFICIENCY, *TERM_OF))


@pytest.mark.slow
def test_the_command_ends_with_the_code_of_the_worst_limit(tmp_path: Path) -> None:
    run = unpacked("bench-sweep", tmp_path)
    passed = hvdprof("analyze", str(run), "--fail-on", "exposed_communication>25%")
    assert (passed.returncode, "passed: mnist on 1 rank" in passed.stderr) == (0, True)
    both = ("--fail-on", "efficiency<80%", "--fail-on", "exposed_communication>0.1%")
    found = hvdprof("analyze", str(run), *both)
    assert found.returncode == RegressedError.exit_code
    assert "hvdprof: 1 of 2 limits failed." in found.stderr
    assert "efficiency<80% is undecided: mnist on 2 ranks: " in found.stderr
    # The report stays whole, and is not the place of the gate.
    assert "Where the time goes" in found.stdout and "limits" not in found.stdout
    open_ = hvdprof("analyze", str(run), *both[:2])
    assert open_.returncode == InconclusiveError.exit_code
    assert hvdprof("analyze", str(run), *both[:2], "--allow-inconclusive").returncode == 0
    # What cannot be judged is refused before a report is printed.
    for refused in (("--fail-on", "speed<80%"), (*both[:2], "--section", "scaling")):
        ended = hvdprof("analyze", str(run), *refused)
        assert (ended.returncode, ended.stdout) == (UsageError.exit_code, "")


def test_the_api_judges_a_run(tmp_path: Path) -> None:
    found = api.analyze_run(unpacked("ddp-trainer-slow-data", tmp_path))
    (result,) = api.limit_results(found, ["straggler>10%"])
    assert result.outcome == "undecided"
    assert "one launch has no interval" in result.sentence
