import pandas as pd
import pytest

from hvdprof.analyze.stragglers.chosen_steps import costs_by_steps
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from tests.builders.analysis import analysis_of, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts

MEASURES = [column.name for column in RANK_COSTS.columns if column.name.endswith("_ns")]


@pytest.mark.heavy
def test_costs_of_all_steps_are_those_of_the_analysis(tmp_path):
    analysis = analysis_of(tmp_path / "run", with_a_straggler(4, rank=2))
    whole = analysis.table("rank_costs")
    key = str(whole["pass_id"].iloc[-1]), str(whole["segment"].iloc[-1])
    own = whole[((whole["pass_id"] == key[0]) & (whole["segment"] == key[1])).to_numpy()]
    found = costs_by_steps(analysis, key)(0, 1_000)
    pd.testing.assert_frame_equal(found[MEASURES], own[MEASURES].reset_index(drop=True))


@pytest.mark.heavy
def test_costs_are_those_of_the_chosen_steady_steps_alone(tmp_path):
    parts = {name: ms + pd.Series([0.0] * 62) for name, ms in typical_parts(10.0, 6.0).items()}
    forward = [[float(ms) for ms in parts["forward"]] for _ in range(2)]
    blocked = [[float(ms) for ms in parts["blocked"]] for _ in range(2)]
    for step in range(40, 62):
        forward[1][step] += 3.0
        blocked[1][step] -= 3.0
    spec = SegmentSpec(parts_ms={**parts, "forward": forward, "blocked": blocked})
    analysis = analysis_of(tmp_path / "run", [PassSpec(size=2, segments=[spec])])
    rows = analysis.table("rank_costs")
    costs = costs_by_steps(analysis, (str(rows["pass_id"].iloc[0]), str(rows["segment"].iloc[0])))

    def of_rank(first, last):
        found = costs(first, last)
        return found[found["rank"] == 1]["cost_ns"].sum()

    assert of_rank(10, 35) == pytest.approx(0, abs=1e3)
    assert of_rank(45, 55) == pytest.approx(3e6, rel=0.01)
    # The warm-up does not count.
    assert costs(0, 0).empty
