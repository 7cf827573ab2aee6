import numpy as np
import pytest

from hvdprof.analyze.steps.evaluation_time import evaluation_times
from hvdprof.model.tables.run_tables import TURNS
from tests.builders.declared_rows import declared_rows
from tests.builders.evaluated_steps import evaluated_steps


def times_of(tables):
    turns = tables.get("turns", TURNS.empty())
    return evaluation_times(tables["steps"], tables["job_steps"], tables["evaluations"], turns)


def test_the_time_of_each_evaluation_is_without_the_training_step():
    (own,) = times_of(evaluated_steps([40.0, 60.0])).values()

    assert own.each_ns.tolist() == [60e6] * 3
    assert own.inside.tolist() == [[40e6, 60e6]] * 3
    assert own.blocked.tolist() == [[20e6, 0.0]] * 3
    # 40 steps of 10 ms, and the evaluations.
    assert own.recorded_ns == 580e6


def test_the_time_between_turns_is_no_time_of_the_launch():
    tables = evaluated_steps([40.0, 60.0])
    whole = times_of(tables)
    ((key, own),) = whole.items()
    # Stopped for a second before step 15, which lies between two turns.
    steps = tables["steps"]
    steps.loc[steps["step"] >= 15, "start_ns"] += 1_000_000_000
    line = {"pass_id": key[0], "segment": key[1]}
    tables["turns"] = declared_rows(
        TURNS,
        line | {"first_step": 0, "num_steps": 15},
        line | {"first_step": 16, "num_steps": 24},
    )

    (in_turns,) = times_of(tables).values()

    assert in_turns.each_ns.tolist() == own.each_ns.tolist()
    assert in_turns.recorded_ns == pytest.approx(own.recorded_ns - 10e6)


def test_an_evaluation_of_one_rank_alone_is_in_the_step_times():
    assert times_of(evaluated_steps([60.0, 0.0], without_last=True)) == {}


def test_an_evaluation_behind_a_missing_step_has_no_known_begin():
    tables = evaluated_steps([40.0, 40.0])
    tables["steps"] = tables["steps"][tables["steps"]["step"] != 9]
    (own,) = times_of(tables).values()

    assert len(own.taken) == 2


def test_passes_without_training_in_warm_up_are_no_evaluations():
    tables = evaluated_steps([40.0, 40.0])
    tables["steps"]["warmup"] |= tables["steps"]["step"] < 15
    (own,) = times_of(tables).values()

    assert len(own.taken) == 2


def test_evaluations_before_the_steady_state_count():
    tables = evaluated_steps([40.0, 40.0])
    tables["job_steps"]["steady"] &= tables["job_steps"]["step"] > 15
    (own,) = times_of(tables).values()

    assert len(own.taken) == 3


@pytest.mark.parametrize("missing", ["rank", "steady"])
def test_without_all_ranks_or_a_steady_step_nothing_is_known(missing):
    tables = evaluated_steps([40.0, 40.0])
    if missing == "steady":
        tables["job_steps"]["steady"] = False
    else:
        steps = tables["steps"]
        tables["steps"] = steps[~(steps["evaluation"] & (steps["rank"] == 1))]

    assert times_of(tables) == {}


def test_blocked_time_that_was_not_measured_is_unknown():
    tables = evaluated_steps([40.0, 60.0])
    tables["steps"]["blocked_ns"] = None
    tables["steps"]["blocked_ns"] = tables["steps"]["blocked_ns"].astype("Int64")
    (own,) = times_of(tables).values()

    assert np.isnan(own.blocked).all()


def test_waits_in_the_evaluation_are_no_time_of_the_rank_itself():
    (own,) = times_of(evaluated_steps([40.0, 60.0], per_batch=True)).values()

    assert own.each_ns.tolist() == [60e6] * 3
    assert own.inside.tolist() == [[40e6, 60e6]] * 3
    assert own.blocked.tolist() == [[20e6, 0.0]] * 3


def test_recordings_without_waits_in_evaluations_have_those_behind_them():
    tables = evaluated_steps([40.0, 60.0])
    tables["evaluations"] = tables["evaluations"].iloc[:0]
    (own,) = times_of(tables).values()

    assert own.blocked.tolist() == [[20e6, 0.0]] * 3


def test_an_evaluation_after_the_last_step_is_a_part_of_the_loop():
    (own,) = times_of(evaluated_steps([40.0, 60.0], after_last=True)).values()

    assert own.each_ns.tolist() == [60e6] * 4
    assert own.inside.tolist() == [[40e6, 60e6]] * 4
    assert own.blocked.tolist() == [[20e6, 0.0]] * 4
    assert own.recorded_ns == 640e6
    assert own.is_followed.all()


def test_the_only_evaluation_may_follow_the_last_step():
    tables = evaluated_steps([40.0, 60.0], num_evaluations=0, after_last=True)
    (own,) = times_of(tables).values()

    assert own.each_ns.tolist() == [60e6]
    assert own.recorded_ns == 160e6


def test_after_the_last_step_nobody_may_wait():
    tables = evaluated_steps([40.0, 60.0], after_last=True)
    is_last = tables["evaluations"]["after_last"]
    tables["evaluations"].loc[is_last, ["rest_ns", "rest_blocked_ns"]] = 0
    (own,) = times_of(tables).values()

    assert own.is_followed.tolist() == [True, True, True, False]
    assert own.each_ns.tolist() == [60e6] * 3 + [50e6]


def test_an_evaluation_of_one_rank_alone_after_the_last_step_is_none_of_all():
    tables = evaluated_steps([40.0, 60.0], after_last=True)
    rows = tables["evaluations"]
    tables["evaluations"] = rows[~(rows["after_last"] & (rows["rank"] == 1))]
    (own,) = times_of(tables).values()

    assert len(own.taken) == 3
    assert own.recorded_ns == 580e6
