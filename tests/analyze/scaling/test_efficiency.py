import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.scaling.efficiency import efficiency_at, karp_flatt, scaling
from hvdprof.analyze.steps.measured_launches import LaunchFacts
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.report.screen.tiles import tiles
from hvdprof.report.terminal.report_page import shape_page
from tests.builders.analysis import analysis_of, sweep, table_text
from tests.builders.cell_times import cell_time
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


@given(st.floats(1e-4, 0.9), st.integers(2, 1000))
def test_a_job_by_amdahls_law_has_its_serial_fraction_at_every_size(fraction, scale):
    assert karp_flatt(efficiency_at(fraction, scale), scale) == pytest.approx(fraction)


def test_perfect_scaling_has_none_and_better_is_negative():
    assert karp_flatt(1.0, 8) == pytest.approx(0.0, abs=1e-12)
    assert karp_flatt(1.1, 8) < 0


@pytest.mark.parametrize(
    ("efficiency", "scale"), [(1.0, 1), (0.0, 8), (math.nan, 8), (0.5, math.nan)]
)
def test_where_nothing_grew_there_is_no_fraction(efficiency, scale):
    assert math.isnan(karp_flatt(efficiency, scale))


CELL = ("model", "np", "engine", "compression", "reduction")


@pytest.mark.slow
def test_against_plain_torch(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, sweep({0: 10, 1: 10.5, 2: 12.5, 4: 16}))
    columns = ("np", "engine", "samples_per_s", "efficiency", "baseline", "num_launches")
    expected = """\
1 torch 3200.107 1.000 torch np=1 3
1 horovod 3047.721 0.952 torch np=1 3
2 horovod 5120.171 0.800 torch np=1 3
4 horovod 8000.267 0.625 torch np=1 3"""
    assert table_text(analysis.scaling, columns) == expected


@pytest.mark.heavy
def test_the_interval_comes_from_the_launches(tmp_path: Path) -> None:
    row = analysis_of(tmp_path, sweep({0: 10, 2: 12.5})).scaling.iloc[1]
    # Each side: launches differ by 1 %, 3 launches, 2 degrees; together 4 degrees, t = 2.776.
    reach = 2.776 * 0.01 * math.sqrt(2 / 3)
    assert row["efficiency_low"] == pytest.approx(0.8 * math.exp(-reach), rel=1e-3)
    assert row["efficiency_high"] == pytest.approx(0.8 * math.exp(reach), rel=1e-3)
    assert row["samples_per_s_low"] < row["samples_per_s"] < row["samples_per_s_high"]


def test_a_step_time_whose_interval_has_no_bound_leaves_the_throughput_without_one() -> None:
    time = cell_time(10.0, error=1e3)
    facts = {
        ("p", "s"): LaunchFacts(
            np.full(30, 10**7), dict.fromkeys(RECORDED_PARTS, 0.0), 32.0, (32.0, 32.0)
        )
    }
    assert time.log_step_time.interval().low == 0
    row = scaling({time.cell: time}, facts, {}, {}).iloc[0]
    assert row["samples_per_s"] == pytest.approx(6400)
    assert row["samples_per_s_low"] < 1
    assert math.isnan(row["samples_per_s_high"])


@pytest.mark.heavy
def test_the_baseline_has_efficiency_1_and_no_interval(tmp_path: Path) -> None:
    row = analysis_of(tmp_path, sweep({0: 10, 2: 12.5})).scaling.iloc[0]
    assert row["efficiency"] == 1
    assert math.isnan(row["efficiency_low"])
    assert math.isnan(row["efficiency_high"])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sizes", "baseline"),
    [({1: 10, 2: 12}, "horovod np=1"), ({2: 12, 4: 15}, "horovod np=2")],
)
def test_other_baselines(tmp_path: Path, sizes: dict[int, float], baseline: str) -> None:
    scaling = analysis_of(tmp_path, sweep(sizes)).scaling
    assert set(scaling["baseline"]) == {baseline}
    small, large = sizes.values()
    assert scaling["efficiency"].tolist() == pytest.approx([1, small / large])


@pytest.mark.heavy
@pytest.mark.parametrize("np_", [1, 2])
def test_one_number_of_ranks_alone_has_no_efficiency(tmp_path: Path, np_: int) -> None:
    analysis = analysis_of(tmp_path, sweep({np_: 12}))
    row = analysis.scaling.iloc[0]
    assert math.isnan(row["efficiency"])
    assert row["baseline"] == ""
    assert math.isnan(analysis.verdict.efficiency)
    assert analysis.table("ceilings")["efficiency"].isna().all()
    assert "efficiency against" not in shape_page(analysis).tables[0].caption
    throughput = tiles(analysis)[1]
    assert throughput.detail == ""


@pytest.mark.heavy
def test_toggles_refer_to_a_baseline_that_has_no_efficiency(tmp_path: Path) -> None:
    toggles = [SegmentSpec(compression=one) for one in ("none", "fp16")]
    scaling = analysis_of(tmp_path, [PassSpec(size=2, segments=toggles)]).scaling
    assert scaling["efficiency"].isna().tolist() == [True, False]
    assert scaling["baseline"].tolist() == ["horovod np=2"] * 2


@pytest.mark.heavy
def test_strong_scaling_counts_samples_not_steps(tmp_path: Path) -> None:
    passes = [
        PassSpec(
            size=size,
            repeat=repeat,
            segments=[SegmentSpec(batch_size=64 // size, parts_ms=typical_parts(step_ms))],
        )
        for repeat in (1, 2)
        for size, step_ms in ((1, 20.0), (2, 12.5), (4, 8.0))
    ]
    scaling = analysis_of(tmp_path, passes, settings={"scaling": "strong"}).scaling
    # E = N0 * T_N0 / (N * T_N)
    assert scaling["efficiency"].tolist() == pytest.approx([1, 20 / 25, 20 / 32])
    assert scaling["samples_per_s"].tolist() == pytest.approx([3200, 5120, 8000])


@pytest.mark.heavy
def test_only_throughput_passes_give_numbers(tmp_path: Path) -> None:
    traced = PassSpec(size=2, mode="trace", segments=[SegmentSpec(parts_ms=typical_parts(13.75))])
    scaling = analysis_of(tmp_path, [*sweep({0: 10, 2: 12.5}), traced]).scaling
    assert len(scaling) == 2
    row = scaling.iloc[1]
    assert row["efficiency"] == pytest.approx(0.8, rel=1e-3)
    assert row["trace_overhead"] == pytest.approx(0.1, rel=1e-3)
    assert row["trace_overhead_low"] < 0.1 < row["trace_overhead_high"]
    assert math.isnan(scaling.iloc[0]["trace_overhead"])


@pytest.mark.slow
@pytest.mark.parametrize("status", ["failed", "interrupted", "planned"])
def test_what_was_not_finished_does_not_count(tmp_path: Path, status: str) -> None:
    segment = SegmentSpec(parts_ms=typical_parts(99), status=status)
    broken = PassSpec(size=2, repeat=4, segments=[segment])
    analysis = analysis_of(tmp_path, [*sweep({0: 10, 2: 12.5}), broken])
    assert analysis.scaling["efficiency"].tolist() == pytest.approx([1, 0.8], rel=1e-3)
    assert len(analysis.failed) == (status == "failed")
    assert (analysis.run.steps["dur_ns"] == 99_000_000).any()


@pytest.mark.heavy
def test_oversubscribed_cells_are_measured_and_flagged(tmp_path: Path) -> None:
    passes = [
        *sweep({0: 10}),
        PassSpec(size=4, oversubscribed=True, segments=[SegmentSpec(parts_ms=typical_parts(40))]),
    ]
    row = analysis_of(tmp_path, passes).scaling.iloc[1]
    assert row["oversubscribed"]
    assert row["efficiency"] == pytest.approx(0.25, rel=1e-3)


@pytest.mark.slow
def test_toggles_are_cells_of_their_own_in_a_fixed_order(tmp_path: Path) -> None:
    toggles = [
        SegmentSpec(model=model, compression=compression, reduction=reduction)
        for model in ("vgg16", "mnist")
        for reduction in ("adasum", "average")
        for compression in ("fp16", "none")
    ]
    scaling = analysis_of(tmp_path, [PassSpec(size=2, segments=toggles)]).scaling
    expected = """\
vgg16 2 horovod none average
vgg16 2 horovod fp16 average
vgg16 2 horovod none adasum
vgg16 2 horovod fp16 adasum
mnist 2 horovod none average
mnist 2 horovod fp16 average
mnist 2 horovod none adasum
mnist 2 horovod fp16 adasum"""
    assert table_text(scaling, CELL) == expected
    assert scaling["sent_bytes"].tolist() == [4040, 2020] * 4
    assert scaling["baseline"].unique().tolist() == ["horovod np=2"]


@pytest.mark.heavy
def test_step_times_are_those_of_the_steady_steps(tmp_path: Path) -> None:
    # 2 warm-up batches, 20 slow steps that were not counted as warm-up, 100 steady ones.
    step_ms = np.concatenate((np.full(22, 50.0), 10 + (np.arange(100) % 5) / 10))
    segment = SegmentSpec(parts_ms=typical_parts(step_ms), num_steps=120)
    analysis = analysis_of(tmp_path, [PassSpec(segments=[segment])])
    launch = analysis.launches.iloc[0]
    assert (launch["num_steps"], launch["num_cut_steps"]) == (100, 20)
    row = analysis.scaling.iloc[0]
    assert row["step_time_median_ns"] == pytest.approx(10.2e6)
    assert row["step_time_p95_ns"] == pytest.approx(10.4e6)
    assert row["samples_per_s"] == pytest.approx(32 / 10.2e-3)
    assert (~analysis.job_steps["steady"]).sum() == 20


@pytest.mark.heavy
def test_exposed_communication_is_the_mean_over_ranks(tmp_path: Path) -> None:
    blocked = np.array([[1.0], [3.0]])
    parts = {"forward": 10.0 - blocked, "blocked": blocked}
    row = analysis_of(tmp_path, [PassSpec(size=2, segments=[SegmentSpec(parts_ms=parts)])])
    cell = row.scaling.iloc[0]
    assert cell["blocked_ns"] == pytest.approx(2e6)
    assert cell["blocked_share"] == pytest.approx(0.2)
