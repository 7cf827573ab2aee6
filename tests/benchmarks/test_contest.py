import dataclasses

import numpy as np
import pytest

from benchmarks.contest import (
    NOISES,
    SCENARIOS,
    Launch,
    Outcome,
    by_scenario,
    judged,
    outcomes,
    recorded_launches,
    simulated_launch,
    table,
    tasks,
)
from benchmarks.contest_rules import (
    RULES,
    Suspect,
    flight_recorder,
    hta,
    hta_first,
    megatron,
    nvrx_phases,
    nvrx_step,
    tracelens,
    traceml,
)
from tests.builders.step_works import simulated

NUM_STEPS, NUM_RANKS = 40, 4
SLOW = 2


def late(phase, ms, **options):
    fault = np.zeros((NUM_STEPS, NUM_RANKS))
    fault[:, SLOW] = ms
    return simulated(NUM_STEPS, NUM_RANKS, extra_ms={phase: fault}, noise=0.005, **options)


def ranks_of(suspect):
    return {one.rank for one in suspect}


@pytest.mark.parametrize(("phase", "named"), [("data", "data"), ("forward", "forward")])
def test_traceml_sees_the_wait_of_the_others_in_backward(phase, named):
    (suspect,) = traceml(late(phase, 30))

    assert (suspect.rank, suspect.phase) == (SLOW, named)
    assert suspect.cost_ns == pytest.approx(30e6, rel=0.1)


def test_traceml_does_not_see_a_slow_backward_pass_nor_ten_percent_of_a_step():
    assert traceml(late("backward", 30)) == ()
    assert traceml(late("forward", 8)) == ()
    # No component explains it.
    (suspect,) = traceml(late("outside", 30))
    assert (suspect.rank, suspect.phase) == (SLOW, "")


def test_nvrx_names_sections_that_are_a_third_longer():
    (suspect,) = nvrx_phases(late("forward", 11))
    assert (suspect.rank, suspect.phase) == (SLOW, "forward")
    assert suspect.cost_ns == pytest.approx(11e6, rel=0.05)
    assert nvrx_phases(late("forward", 9)) == ()
    # Half of the steps at most: medians do not move.
    assert nvrx_phases(late("outside", 60)) == ()
    assert ranks_of(nvrx_step(late("outside", 60))) == {SLOW}


def test_the_flight_recorder_ratio_names_the_shortest_duration():
    assert ranks_of(flight_recorder(late("forward", 60))) == {SLOW}
    # A tail of 5 ms and a wait of 30 ms: 5 / 35 is above a tenth, and 1.7 deviations below.
    assert flight_recorder(late("forward", 30)) == ()


def test_tracelens_names_the_rank_of_the_least_waiting():
    (suspect,) = tracelens(late("backward", 20))
    assert suspect.rank == SLOW
    assert suspect.cost_ns == pytest.approx(20e6, rel=0.1)
    assert tracelens(simulated(NUM_STEPS, 8, seed=3)) == ()


def test_hta_always_names_its_candidates():
    assert SLOW in ranks_of(hta(late("backward", 20)))
    assert ranks_of(hta_first(late("backward", 20))) == {SLOW}
    assert len(hta(simulated(NUM_STEPS, NUM_RANKS))) == 2


def test_hta_leaves_short_kernels_out():
    work = late("backward", 20, tail_ms=0.5)

    assert SLOW not in ranks_of(hta_first(work))


def test_megatron_times_forward_and_the_batch_alone():
    assert megatron(late("forward", 20)) == (
        Suspect(SLOW, "forward", pytest.approx(20e6, rel=0.1)),
    )
    assert ranks_of(megatron(late("data", 20))) == {SLOW}
    assert megatron(late("backward", 20)) == ()


@pytest.mark.heavy
def test_every_rule_takes_every_scenario():
    for scenario in SCENARIOS:
        launch = simulated_launch(scenario, 8, "with stalls", seed=1)
        for rule in RULES.values():
            assert ranks_of(rule(launch.work)) <= set(range(8))


def test_a_simulated_launch_costs_what_its_fault_adds():
    one = next(one for one in SCENARIOS if one.share == 0.5)
    launch = simulated_launch(one, 4, "independent", seed=0)

    assert len(launch.ranks) == 1
    assert launch.phases == ("data",)
    assert launch.cost_ns == pytest.approx(50e6, rel=0.1)
    clean = simulated_launch(SCENARIOS[0], 4, "independent", seed=0)
    assert (clean.ranks, clean.cost_ns) == (frozenset(), 0.0)


def test_names_are_judged_by_the_truth():
    work = late("data", 30)
    launch = Launch("one", work, frozenset({SLOW}), ("data",), 30e6)

    outcome = judged(launch, [Suspect(SLOW, "data", 33e6), Suspect(0)])
    assert (outcome.num_right, outcome.num_wrong, outcome.phase_right) == (1, 1, True)
    assert outcome.cost_error == pytest.approx(0.1)
    assert not judged(launch, [Suspect(SLOW)]).phase_right
    small = dataclasses.replace(launch, cost_ns=1e6)
    assert judged(small, []).num_slow == 0


def test_the_tables_count():
    def outcome(scenario, slow, right, wrong, error=float("nan")):
        return Outcome(scenario, 4, slow, right, wrong, right > 0, error)

    found = {
        "good": [outcome("slow", 1, 1, 0, 0.1), outcome("slow", 1, 0, 1), outcome("calm", 0, 0, 0)],
        "noisy": [outcome("slow", 1, 1, 1), outcome("slow", 1, 1, 0), outcome("calm", 0, 0, 2)],
    }

    text = table(found)
    assert "| good | 50% of 2 | 50% of 2 | 100% of 1 | 10%, 10% | 0% of 1 |" in text
    assert "| noisy | 40% of 5 | 100% of 2 | 100% of 2 | - | 100% of 1 |" in text
    rows = by_scenario(found).splitlines()
    assert "| slow | 50% of 2 | 100% of 2 |" in rows
    assert "| calm: a rank named | 0% of 1 | 100% of 1 |" in rows


def test_all_settings_are_tried_and_none_is_there_without_runs(tmp_path):
    assert {noise for _, _, noise, _ in tasks(1)} == set(NOISES)
    assert all(ranks > 4 for one, ranks, _, _ in tasks(1) if one.num_slow == 2)
    assert list(recorded_launches(tmp_path)) == []


def test_hvdprof_finds_a_slow_rank_in_the_contest():
    one = next(one for one in SCENARIOS if one.share == 0.2)

    of_rules = outcomes((one, 4, "independent", 3))

    assert [(one.num_right, one.num_wrong) for one in of_rules["hvdprof"]] == [(1, 0)] * 3
