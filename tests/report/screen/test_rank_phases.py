from dataclasses import replace

import numpy as np
import pytest

from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.report.screen.rank_phases import MOST_RANKS, PHASES, phase_costs, rank_phases
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


@pytest.mark.heavy
def test_it_points_at_the_phase_of_the_slow_rank(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    strip = rank_phases(finished, verdict_cell(finished))
    assert strip.ranks == (0, 1, 2, 3)
    forward = list(PHASES.values()).index("forward")
    assert strip.rows[2][forward].text == "+3.0 ms"
    assert strip.rows[2][forward].tint == 1.0
    # The others have the median of the others: one slow rank among four does not move it.
    assert {row[forward].text for place, row in enumerate(strip.rows) if place != 2} == {"0"}
    assert strip.sentence == (
        "Rank 2 is slower by 3.0 ms in forward (23 % of the mean step). "
        "Its delays cost 3.00 ms per step (23.1 %)."
    )


@pytest.mark.heavy
def test_the_cost_of_the_rank_is_that_of_the_waterfall(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    causes = finished.table("waterfall")
    causes.loc[causes["term"] == "straggler", ["time_ns", "time_low_ns", "time_high_ns"]] = 2e6
    strip = rank_phases(finished, verdict_cell(finished))
    assert "slower by 3.0 ms in forward" in strip.sentence
    assert "Its delays cost 2.00 ms per step" in strip.sentence


@pytest.mark.heavy
def test_the_shares_are_those_of_the_mean_step(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    steps = finished.table("launches")
    steps.loc[steps["step_time_ns"] > 0, "step_time_ns"] = 30e6
    strip = rank_phases(finished, verdict_cell(finished))
    assert strip.sentence.startswith("Rank 2 is slower by 3.0 ms in forward (10 % of the mean")


@pytest.mark.heavy
def test_a_slow_rank_that_is_no_named_straggler_has_no_cost(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    causes = finished.table("waterfall")
    causes.loc[causes["term"] == "straggler", "ranks"] = "3"
    strip = rank_phases(finished, verdict_cell(finished))
    slower = "Rank 2 is slower by 3.0 ms in forward (23 % of the mean step)."
    assert strip.sentence == f"{slower} No cause names this rank: it may be chance."
    causes.loc[causes["term"] == "straggler", "ranks"] = "1, 2"
    assert rank_phases(finished, verdict_cell(finished)).sentence == slower


@pytest.mark.heavy
@pytest.mark.parametrize(("waits", "says_so"), [(0.9, True), (0.1, False)])
def test_a_slow_rank_without_a_name_may_have_waited_for_a_core(tmp_path, waits, says_so):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    causes = finished.table("waterfall")
    causes.loc[causes["term"] == "straggler", "ranks"] = "3"
    own = finished.table("rank_costs").query("rank == 2").iloc[0]
    row = {name: own[name] for name in ("pass_id", "segment", "rank")}
    numbers = {one.name: 0 for one in RANK_MACHINE.columns if one.name not in row}
    machine = RANK_MACHINE.frame([row | numbers | {"measure": "core_wait", "mean": waits}])
    busy = replace(finished, derived={**finished.derived, "rank_machine": machine})
    said = rank_phases(busy, verdict_cell(busy)).sentence
    assert ("waits for a core (it had none for 90 % of the time" in said) == says_so
    assert "No cause names this rank: it may be chance" in said


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.03, "Its delays there cost 400 µs per step (3 %); no cause names this rank."),
        (-0.01, "Its delays there cost the step nothing."),
    ],
)
def test_a_small_difference_has_its_cost_and_is_not_called_chance(tmp_path, share, said):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    causes, costs = finished.table("waterfall"), finished.table("rank_costs")
    causes.loc[causes["term"] == "straggler", "ranks"] = "3"
    own = (costs["rank"] == 2) & (costs["phase"].astype(str) == "forward")
    costs.loc[own, ["cost_ns", "cost_share"]] = 400e3 if share > 0 else -10e3, share
    assert rank_phases(finished, verdict_cell(finished)).sentence.endswith(f". {said}")


@pytest.mark.heavy
def test_a_machine_that_was_too_busy_has_no_strip_of_the_cell_it_cannot_judge(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    busy = replace(finished, verdict=replace(finished.verdict, is_too_busy=True))
    cell = verdict_cell(busy)
    assert rank_phases(busy, cell) is None
    assert rank_phases(busy, cell | {"compression": "fp16"}) is not None


@pytest.mark.heavy
def test_ranks_alike_say_so(tmp_path):
    finished = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.0}, blocked_ms={2: 2.0}))
    strip = rank_phases(finished, verdict_cell(finished))
    assert strip.sentence == "No rank differs by 2 % of the step or more in any phase."
    assert all(one.tint == 0 for row in strip.rows for one in row)


@pytest.mark.heavy
def test_of_many_ranks_those_that_deviate_most_are_shown(tmp_path):
    parts = {name: np.full((12, 1), float(ms)) for name, ms in typical_parts(10.0, 2.0).items()}
    parts["data"][7] += 1.0
    spec = PassSpec(size=12, segments=[SegmentSpec(parts_ms=parts)])
    finished = analysis_of(tmp_path / "run", [*sweep({0: 10.0}), spec])
    strip = rank_phases(finished, verdict_cell(finished))
    assert len(strip.ranks) == MOST_RANKS
    assert 7 in strip.ranks
    assert strip.num_ranks == 12


@pytest.mark.heavy
def test_one_rank_has_nothing_to_compare_with(tmp_path):
    finished = analysis_of(tmp_path / "run", sweep({0: 10.0, 1: 10.5}))
    assert rank_phases(finished, verdict_cell(finished)) is None


@pytest.mark.heavy
def test_costs_are_by_rank_and_phase_the_costliest_rank_first(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    rows = finished.table("rank_costs")
    table = phase_costs(rows[(rows["pass_id"] == rows["pass_id"].iloc[-1]).to_numpy()])
    assert table.heads == (*PHASES.values(), "all")
    assert table.ranks[0] == 2
    assert table.num_ranks == 4
    forward = table.heads.index("forward")
    assert table.rows[0][forward].text == table.rows[0][-1].text == "3.0 ms"
    assert table.rows[0][forward].tint == 1.0
    # A cost below a thousandth of the step is none.
    assert {one.text for row in table.rows[1:] for one in row} == {"0"}
    assert table.sentence.startswith("Rank 2 is slower by 3.0 ms in forward")
    assert phase_costs(rows.iloc[:0]) is None
