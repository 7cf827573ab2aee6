from dataclasses import replace

import numpy as np
import pytest

from hvdprof.model.causes import (
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    RESIDUAL_TERM,
    STRAGGLER,
)
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts

UNNAMED = [JITTER, EXPOSED_TRANSFER, INPUT_BOUND, OUTSIDE_PHASES]


def waterfall_of(tmp_path, passes, **manifest):
    return analysis_of(tmp_path / "run", passes, **manifest)


def of_cell(analysis, size):
    rows = analysis.table("waterfall")
    return rows[rows["np"] == size].set_index("term")


@pytest.mark.heavy
def test_the_terms_sum_to_what_the_cell_lacks(tmp_path):
    analysis = waterfall_of(
        tmp_path, sweep({0: 10.0, 2: 12.5, 4: 15.0}, blocked_ms={2: 2.0, 4: 4.0})
    )

    efficiency = analysis.scaling.set_index("np")["efficiency"]
    for size in (2, 4):
        rows = of_cell(analysis, size)
        assert list(rows.index) == [*UNNAMED, COMPUTE_INFLATION, BASELINE_CREDIT, RESIDUAL_TERM]
        assert rows["share"].sum() == pytest.approx(1 - efficiency[size], abs=1e-12)
        assert rows.loc[RESIDUAL_TERM, "share"] == 0


@pytest.mark.heavy
def test_without_a_baseline_the_terms_are_what_is_no_compute(tmp_path):
    rows = of_cell(waterfall_of(tmp_path, sweep({2: 12.5}, blocked_ms={2: 2.5})), 2)

    assert list(rows.index) == [*UNNAMED, RESIDUAL_TERM]
    # 10 ms are not blocked: 5 % data, 90 % compute, 5 % in no phase.
    expected = {EXPOSED_TRANSFER: 2.5e6, INPUT_BOUND: 0.5e6, OUTSIDE_PHASES: 0.5e6, JITTER: 0}
    for term, time_ns in expected.items():
        assert rows.loc[term, "time_ns"] == pytest.approx(time_ns, rel=0.02, abs=1e4), term
    assert rows.loc[RESIDUAL_TERM, "share"] == 0


@pytest.mark.heavy
def test_an_oversubscribed_cell_has_a_waterfall(tmp_path):
    crowded = [
        PassSpec(
            size=4,
            repeat=repeat,
            oversubscribed=True,
            segments=[SegmentSpec(parts_ms=typical_parts(40.0, 10.0))],
        )
        for repeat in (1, 2)
    ]
    rows = of_cell(waterfall_of(tmp_path, [*sweep({0: 10.0}), *crowded]), 4)

    assert rows.loc[EXPOSED_TRANSFER, "share"] == pytest.approx(0.25, rel=0.01)


@pytest.mark.heavy
def test_what_is_blocked_in_all_ranks_alike_is_transfer(tmp_path):
    analysis = waterfall_of(tmp_path, sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}))

    assert of_cell(analysis, 2).loc[EXPOSED_TRANSFER, "time_ns"] == pytest.approx(2e6, rel=0.05)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [2, 4])
def test_the_whole_cost_of_a_straggler_is_in_one_row(tmp_path, size):
    rows = of_cell(waterfall_of(tmp_path, with_a_straggler(size)), size)

    straggler = rows.loc[STRAGGLER]
    assert straggler["time_ns"] == pytest.approx(3e6, rel=0.02)
    assert straggler["saved_if_removed_ns"] == pytest.approx(3e6, rel=0.02)
    named = straggler[["ranks", "phase", "pattern", "num_launches"]].tolist()
    assert named == ["1", "forward", "persistent", 3]
    # The other ranks compute as long as the baseline.
    assert rows.loc[COMPUTE_INFLATION, "time_ns"] == pytest.approx(0, abs=0.1e6)
    assert rows.loc[JITTER, "time_ns"] == pytest.approx(0, abs=1e4)


@pytest.mark.heavy
def test_a_straggler_in_one_launch_of_three_is_jitter(tmp_path):
    passes = with_a_straggler(4, rank=2, extra_ms=(3.0, 0.0, 0.0))
    rows = of_cell(waterfall_of(tmp_path, passes), 4)

    assert STRAGGLER not in rows.index
    # One of four ranks is 2.25 ms above their mean, in a third of the launches.
    assert rows.loc[JITTER, "time_ns"] == pytest.approx(0.75e6, rel=0.2)


@pytest.mark.heavy
def test_steps_without_phases_have_no_terms_of_phases(tmp_path):
    unknown = {"outside": 10.0, "blocked": 2.0}
    passes = [
        PassSpec(repeat=repeat, size=size, segments=[SegmentSpec(parts_ms=unknown)])
        for size in (1, 2)
        for repeat in (1, 2)
    ]
    rows = of_cell(waterfall_of(tmp_path, passes), 2)

    assert list(rows.index) == [JITTER, EXPOSED_TRANSFER, RESIDUAL_TERM]
    assert rows.loc[EXPOSED_TRANSFER, "time_ns"] == pytest.approx(2e6, rel=0.01)
    assert rows.loc[RESIDUAL_TERM, "share"] == 0


def slept(step_ms, data_ms, between_ms):
    """Three launches of each size that also wait for data and sleep between steps."""
    passes = []
    for one in sweep(step_ms, blocked_ms={2: 1.0}):
        parts = dict(one.segments[0].parts_ms)
        parts["data"] = np.add(parts["data"], data_ms[one.size])
        parts["outside"] = np.add(parts["outside"], between_ms[one.size])
        passes.append(replace(one, segments=[replace(one.segments[0], parts_ms=parts)]))
    return passes


@pytest.mark.heavy
def test_what_the_baseline_has_as_well_is_in_no_row(tmp_path):
    passes = slept({1: 10.0, 2: 12.0}, {1: 6.0, 2: 6.0}, {1: 8.0, 2: 10.0})
    analysis = waterfall_of(tmp_path, passes)
    rows = of_cell(analysis, 2)

    # typical_parts: 5 % of the own work of 10 and 11 ms each in data and in no phase.
    assert rows.loc[INPUT_BOUND, "time_ns"] == pytest.approx(0.05e6, abs=0.05e6)
    assert rows.loc[OUTSIDE_PHASES, "time_ns"] == pytest.approx(2.05e6, rel=0.03)
    assert rows.loc[INPUT_BOUND, "baseline_ns"] == pytest.approx(6.5e6, rel=0.02)
    assert rows.loc[OUTSIDE_PHASES, "baseline_ns"] == pytest.approx(8.5e6, rel=0.02)
    assert rows.loc[COMPUTE_INFLATION, "time_ns"] == pytest.approx(0.9e6, rel=0.1)
    assert rows.loc[BASELINE_CREDIT, "time_ns"] == pytest.approx(0, abs=0.05e6)
    efficiency = analysis.scaling.set_index("np")["efficiency"]
    assert rows["share"].sum() == pytest.approx(1 - efficiency[2], abs=1e-12)
    assert rows.loc[RESIDUAL_TERM, "share"] == 0
    # The baseline has no baseline of its own: its rows are whole.
    assert of_cell(analysis, 1).loc[OUTSIDE_PHASES, "time_ns"] == pytest.approx(8.5e6, rel=0.02)


@pytest.mark.heavy
def test_a_loop_that_sleeps_at_every_size_scales_and_its_cost_is_named(tmp_path):
    analysis = waterfall_of(
        tmp_path, slept({1: 10.0, 2: 11.0}, {1: 0.0, 2: 0.0}, {1: 12.0, 2: 12.0})
    )

    (found,) = analysis.findings.to_dict("records")
    assert (found["id"], found["np"]) == ("outside-phases", 1)
    assert found["cost_ns"] == pytest.approx(12.5e6, rel=0.02)
    assert "Largest cost, in the baseline as well: outside" in analysis.verdict.sentence


def waits_alone(size, extra_ms):
    """Rank 1 alone waits longer for data, in too few steps for a named straggler."""
    passes = []
    for one in sweep({1: 10.0, size: 10.0}, num_steps=7):
        parts = {name: np.full((one.size, 1), ms) for name, ms in one.segments[0].parts_ms.items()}
        if one.size > 1:
            parts["data"][1] += extra_ms
            parts["blocked"][np.arange(size) != 1] += extra_ms
        passes.append(replace(one, segments=[replace(one.segments[0], parts_ms=parts)]))
    return passes


@pytest.mark.heavy
@pytest.mark.parametrize("size", [2, 4])
def test_waits_of_one_rank_in_few_steps_are_no_input_of_all_ranks(tmp_path, size):
    analysis = waterfall_of(tmp_path, waits_alone(size, 40.0))
    rows = of_cell(analysis, size)

    assert STRAGGLER not in rows.index
    cost = rows.loc[JITTER]
    assert (cost["ranks"], cost["phase"]) == ("1", "data")
    assert cost["time_ns"] == pytest.approx(40e6, rel=0.05)
    assert cost["saved_if_removed_ns"] == pytest.approx(40e6, rel=0.05)
    assert rows.loc[INPUT_BOUND, "time_ns"] == pytest.approx(0, abs=0.3e6)
    assert rows.loc[RESIDUAL_TERM, "share"] == 0
    efficiency = analysis.scaling.set_index("np")["efficiency"]
    assert rows["share"].sum() == pytest.approx(1 - efficiency[size], abs=1e-12)
    found = analysis.findings
    assert "input-bound" not in set(found[found["np"] == size]["id"])
    assert analysis.verdict.biggest_loss == "jitter (most of it rank 1, data phase)"
    assert analysis.verdict.biggest_loss_share == cost["share"]


@pytest.mark.heavy
def test_a_clean_twin_names_no_rank_that_waits_alone(tmp_path):
    rows = of_cell(waterfall_of(tmp_path, waits_alone(2, 0.0)), 2)

    assert set(rows["ranks"]) == {""}


def with_pauses(one, part, repeats):
    """A launch with a pause of 60 ms in every 8th step, if its repeat is among these."""
    segment = one.segments[0]
    extra = np.where(np.arange(segment.num_warmup_batches + segment.num_steps) % 8 == 7, 60.0, 0)
    parts = segment.parts_ms | {part: segment.parts_ms[part] + extra[None, :]}
    return replace(
        one, segments=[replace(segment, parts_ms=parts)] if one.repeat in repeats else one.segments
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", ["outside", "forward"])
@pytest.mark.parametrize("repeats", [(1, 2, 3), (2,)])
def test_pauses_of_the_baseline_are_its_credit_and_no_gain_of_the_cell(tmp_path, part, repeats):
    passes = sweep({1: 10.0, 2: 12.0}, blocked_ms={2: 1.0})
    passes = [with_pauses(one, part, repeats if one.size == 1 else ()) for one in passes]
    analysis = waterfall_of(tmp_path, passes)
    rows, baseline = of_cell(analysis, 2), of_cell(analysis, 1)

    # Terms are means of shares, and the step time of a cell is a geometric mean.
    share = len(repeats) / 3
    paused = share * (7.5 / 17.5) * 10e6 * (17.5 / 10) ** share
    assert baseline.loc["pause", "time_ns"] == pytest.approx(paused, rel=0.1)
    assert baseline.loc["pause", "num_launches"] == len(repeats)
    assert rows.loc[BASELINE_CREDIT, "time_ns"] == pytest.approx(-paused, rel=0.1)
    # Without pauses: 10 ms of the baseline, 11 ms of the cell, 90 % of them compute.
    assert rows.loc[COMPUTE_INFLATION, "time_ns"] == pytest.approx(0.9e6, abs=0.3e6)
    assert rows.loc[OUTSIDE_PHASES, "time_ns"] == pytest.approx(0.05e6, abs=0.1e6)
    assert rows.loc[RESIDUAL_TERM, "share"] == 0


@pytest.mark.slow
def test_the_overhead_of_the_baseline_is_a_credit(tmp_path):
    rows = of_cell(
        waterfall_of(tmp_path, sweep({2: 12.0, 4: 14.0}, blocked_ms={2: 2.0, 4: 4.0})), 4
    )

    assert rows.loc[BASELINE_CREDIT, "time_ns"] < -1.9e6


@pytest.mark.slow
def test_one_launch_has_no_interval(tmp_path):
    passes = [one for one in sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}) if one.repeat == 1]

    assert of_cell(waterfall_of(tmp_path, passes), 2)["share_low"].isna().all()


@pytest.mark.heavy
def test_ceilings_name_what_comes_back_at_most(tmp_path):
    analysis = waterfall_of(tmp_path, with_a_straggler(4, rank=2))
    rows = analysis.table("ceilings")
    on_time = rows[rows["remedy"] == "rank on time"].set_index("rank")["saved_ns"]
    network = rows.set_index("remedy").loc["ideal network"]

    assert on_time[2] == pytest.approx(3e6, rel=0.02)
    assert on_time.drop(2).abs().max() < 1e4
    assert network["saved_ns"] == pytest.approx(2e6, rel=0.02)
    assert network["efficiency_gain"] > 0
