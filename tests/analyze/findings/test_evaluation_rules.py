"""Findings on evaluations of all ranks, whose time is in no step time."""

import pytest

from hvdprof.analyze.pipeline import findings
from tests.analyze.findings.test_run_findings import evidence, scaling, segments, term
from tests.builders.evaluated_steps import evaluated_steps
from tests.builders.finding_style import style_faults
from tests.builders.finished_analysis import cell


def rows_of(tables, *others, **values):
    found = findings(evidence([*others], **tables, **values))
    assert [style_faults(row) for row in found.to_dict("records")] == [[]] * len(found)
    return found.set_index("id")


def test_time_in_evaluation_is_stated_with_its_share_of_the_job():
    row = rows_of(evaluated_steps([60.0, 60.0])).loc["evaluation-excluded"]

    assert row["evidence"] == (
        "resnet18 on 2 ranks: 3 evaluations take 60.0 ms each (60.0 ms to 60.0 ms), 31.0 % of the "
        "recorded 0.580 s. Rates and step times are those of training steps alone."
    )
    assert row["severity"] == "note"
    assert row["job_share"] == pytest.approx(180 / 580)


@pytest.mark.heavy
def test_a_rank_that_the_others_wait_for_is_named_with_its_cost():
    row = rows_of(evaluated_steps([10.0, 10.0, 60.0])).loc["evaluation-straggler"]

    assert row["title"] == "Straggler in the evaluation: rank 2"
    assert (
        "the other ranks wait for rank 2 in 3 of 3 evaluations, for 50.0 ms each"
        in (row["evidence"])
    )
    assert "Time in evaluation passes explains 100 % of the delay." in row["evidence"]
    assert row["job_share"] == pytest.approx(150 / 580)
    assert (row["severity"], row["subject"]) == ("error", "rank 2")


@pytest.mark.heavy
def test_a_metric_that_is_reduced_per_batch_names_the_rank_too():
    row = rows_of(evaluated_steps([10.0, 10.0, 60.0], per_batch=True)).loc["evaluation-straggler"]

    assert row["title"] == "Straggler in the evaluation: rank 2"
    assert "explains 100 % of the delay" in row["evidence"]
    assert row["job_share"] == pytest.approx(150 / 580)


def test_what_a_rank_does_behind_the_evaluation_is_distinguished():
    row = rows_of(evaluated_steps([10.0, 10.0], [60.0, 0.0])).loc["evaluation-straggler"]

    assert row["title"] == "Straggler after the evaluation: rank 0"
    assert "explains 0 % of the delay" in row["evidence"]
    assert "a checkpoint" in row["action"]


@pytest.mark.heavy
@pytest.mark.parametrize(("number", "confidence"), [(3, "possible"), (6, "likely")])
def test_few_evaluations_may_have_one_last_rank_by_chance(number, confidence):
    tables = evaluated_steps([10.0, 60.0], num_evaluations=number)

    assert rows_of(tables).loc["evaluation-straggler"]["confidence"] == confidence


@pytest.mark.heavy
@pytest.mark.parametrize(("number", "few"), [(1, "one evaluation"), (2, "two evaluations")])
def test_few_evaluations_say_what_is_known_and_what_is_not(number, few):
    found = rows_of(evaluated_steps([10.0, 10.0, 200.0], num_evaluations=number))
    row = found.loc["evaluation-straggler"]

    assert row["title"] == f"Straggler in {few}: rank 2"
    assert f"in {number} of {number} evaluations, for 190 ms" in row["evidence"]
    assert (
        f"{few.capitalize()}: no interval, no evidence that it is always this rank."
        in row["evidence"]
    )
    assert row["job_share"] == pytest.approx(190 * number / (100 + 300 * number))
    assert (row["severity"], row["confidence"]) == ("warning", "possible")
    assert "Record three evaluations or more" in row["action"]


@pytest.mark.heavy
def test_two_evaluations_with_different_last_ranks_name_none():
    tables = evaluated_steps([10.0, 60.0], num_evaluations=2)
    steps = tables["steps"]
    is_second = steps["evaluation"] & (steps["step"] > 10)
    steps.loc[is_second, "blocked_ns"] = 62_000_000 - steps.loc[is_second, "blocked_ns"]

    assert list(rows_of(tables).index) == ["evaluation-excluded"]


@pytest.mark.parametrize("why", ["not measured", "by turns"])
def test_no_rank_is_named_without_evidence(why):
    tables = evaluated_steps([10.0, 60.0], num_evaluations=4)
    steps = tables["steps"]
    if why == "not measured":
        tables["steps"] = steps.assign(blocked_ns=steps["blocked_ns"].where(~steps["evaluation"]))
    if why == "by turns":
        is_other = steps["evaluation"] & (steps["step"] > 20)
        steps.loc[is_other, "blocked_ns"] = 62_000_000 - steps.loc[is_other, "blocked_ns"]

    assert list(rows_of(tables).index) == ["evaluation-excluded"]


def test_short_evaluations_are_no_finding():
    assert list(rows_of(evaluated_steps([5.0, 0.5])).index) == []


def test_costs_are_compared_as_shares_of_the_job():
    # 60 % of the steps, which are 47 % of the job.
    of_steps = term("exposed-transfer", 0.6)
    tables = evaluated_steps([0.5, 150.0])

    found = rows_of(tables, of_steps, ("scaling", scaling(cell())))

    assert list(found.index)[:2] == ["evaluation-straggler", "shared-memory-transfer"]


def test_crowded_ranks_are_no_more_than_possible():
    tables = evaluated_steps([10.0, 60.0], num_evaluations=9)
    crowded = scaling(cell(oversubscribed=True))

    row = rows_of(tables, ("scaling", crowded), segments=segments(oversubscribed=True)).loc[
        "evaluation-straggler"
    ]

    assert row["confidence"] == "possible"
    assert "oversubscribed" in row["evidence"]
