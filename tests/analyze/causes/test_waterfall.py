import numpy as np
import pytest

from hvdprof.analyze.causes.waterfall import work_shares
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    CAUSES,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    PERSISTENT_IMBALANCE,
    RESIDUAL_TERM,
    TRANSIENT_IMBALANCE,
)
from tests.builders.analysis import analysis_of, sweep
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.step_works import simulated


def waterfall_of(tmp_path, passes, **manifest):
    return analysis_of(tmp_path / "run", passes, **manifest)


def of_cell(analysis, size):
    rows = analysis.table("waterfall")
    return rows[rows["np"] == size].set_index("term")


@pytest.mark.slow
def test_the_terms_sum_to_what_the_cell_lacks(tmp_path):
    analysis = waterfall_of(
        tmp_path, sweep({0: 10.0, 2: 12.5, 4: 15.0}, blocked_ms={2: 2.0, 4: 4.0})
    )

    efficiency = analysis.scaling.set_index("np")["efficiency"]
    for size in (2, 4):
        rows = of_cell(analysis, size)
        assert list(rows.index) == [*CAUSES, RESIDUAL_TERM]
        assert rows["share"].sum() == pytest.approx(1 - efficiency[size], abs=1e-12)
        assert abs(rows.loc[RESIDUAL_TERM, "share"]) < 0.001


def test_what_is_blocked_in_all_ranks_alike_is_transfer(tmp_path):
    analysis = waterfall_of(tmp_path, sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}))

    assert of_cell(analysis, 2).loc[EXPOSED_TRANSFER, "time_ns"] == pytest.approx(2e6, rel=0.05)


def parts_with_a_slow_rank(num_ranks, rank, extra_ms):
    parts = {
        name: np.full((num_ranks, 1), float(length))
        for name, length in typical_parts(10.0, 2.0).items()
    }
    parts["forward"][rank] += extra_ms
    others = np.arange(num_ranks) != rank
    parts["blocked"][others] += extra_ms
    return parts


def test_a_rank_that_is_always_slower_is_persistent_imbalance(tmp_path):
    passes = [*sweep({0: 8.0})]
    for repeat in (1, 2, 3):
        segment = SegmentSpec(parts_ms=parts_with_a_slow_rank(4, 2, 3.0))
        passes.append(PassSpec(size=4, repeat=repeat, segments=[segment]))

    rows = of_cell(waterfall_of(tmp_path, passes), 4)

    # One rank of four needs 3 ms more: the mean rises by 0.75, the fullest is 2.25 above it.
    assert rows.loc[PERSISTENT_IMBALANCE, "time_ns"] == pytest.approx(2.25e6, rel=0.02)
    assert rows.loc[TRANSIENT_IMBALANCE, "time_ns"] == pytest.approx(0, abs=1e4)
    assert rows.loc[COMPUTE_INFLATION, "time_ns"] == pytest.approx(0.75e6, abs=0.1e6)


def test_chance_is_not_persistent_imbalance():
    shares = [work_shares(simulated(60, 8, noise=0.1, seed=seed)) for seed in range(40)]

    held = np.mean([one.slowest_rank_crossval - one.mean_own for one in shares])
    plain = np.mean([one.slowest_rank - one.mean_own for one in shares])

    assert plain > 0.01
    assert abs(held) < 0.2 * plain


def test_the_product_of_the_factors_is_the_efficiency(tmp_path):
    analysis = waterfall_of(tmp_path, sweep({0: 10.0, 1: 10.4, 2: 12.5}, blocked_ms={2: 2.0}))

    factors = analysis.table("pop")
    assert factors["identity_error"].abs().max() < 1e-12
    merged = factors.merge(
        analysis.scaling[analysis.scaling["engine"] == "horovod"], on=["model", "np"]
    )
    assert merged["efficiency_x"].tolist() == pytest.approx(merged["efficiency_y"].tolist())


def test_steps_without_phases_have_no_waterfall(tmp_path):
    unknown = {"other": 10.0}
    passes = [
        PassSpec(repeat=repeat, size=size, segments=[SegmentSpec(parts_ms=unknown)])
        for size in (1, 2)
        for repeat in (1, 2)
    ]
    analysis = waterfall_of(tmp_path, passes)

    assert len(analysis.scaling) == 2
    assert analysis.table("waterfall").empty
    assert analysis.table("pop").empty


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


def test_ceilings_name_what_comes_back_at_most(tmp_path):
    passes = [*sweep({0: 8.0})]
    for repeat in (1, 2, 3):
        segment = SegmentSpec(parts_ms=parts_with_a_slow_rank(4, 2, 3.0))
        passes.append(PassSpec(size=4, repeat=repeat, segments=[segment]))

    analysis = waterfall_of(tmp_path, passes)
    rows = analysis.table("ceilings")
    on_time = rows[rows["remedy"] == "rank on time"].set_index("rank")["saved_ns"]
    network = rows.set_index("remedy").loc["ideal network"]

    assert on_time[2] == pytest.approx(3e6, rel=0.02)
    assert on_time.drop(2).abs().max() < 1e4
    assert network["saved_ns"] == pytest.approx(2e6, rel=0.02)
    assert network["efficiency_gain"] > 0
