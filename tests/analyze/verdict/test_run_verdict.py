import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.verdict.run_verdict import verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.failures.launcher_failures import Failure
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.finished_analysis import finding, manifest
from tests.builders.run_directory import PassSpec, SegmentSpec, skipped, typical_parts


@pytest.mark.heavy
def test_efficiency_and_the_biggest_loss(tmp_path: Path) -> None:
    passes = sweep({0: 10, 1: 10.1, 2: 12.5}, blocked_ms={2: 2.0})
    verdict = analysis_of(tmp_path, passes).verdict
    assert verdict.sentence == (
        "mnist on 2 ranks: 80.0 ± 1.8 % scaling efficiency against torch np=1. Largest loss: "
        "waiting for Horovod's cycle, 2.00 ms per step (16.0 %); fix: set "
        "HOROVOD_CYCLE_TIME=0.1."
    )
    assert (verdict.model, verdict.np) == ("mnist", 2)
    assert verdict.biggest_loss == "exposed transfer"
    assert verdict.efficiency == pytest.approx(0.8, rel=1e-3)
    assert verdict.biggest_loss_share == pytest.approx(0.16, rel=1e-3)


def test_a_stall_comes_first() -> None:
    lead = "Stall at step 5 of main: rank 0 blocked for 20.0 s on stalled rank 1."
    findings = FINDINGS.frame([finding(), finding(lead=lead)])
    run = manifest(passes=[])
    said = verdict(SCALING.empty(), WATERFALL.empty(), findings, (), run).sentence
    assert said.startswith(f"{lead} No")


@pytest.mark.slow
def test_the_model_that_scales_worst_at_its_largest_valid_size(tmp_path: Path) -> None:
    passes = [
        *sweep({0: 10, 2: 11, 4: 14}, model="mnist"),
        *sweep({0: 10, 2: 15, 4: 18}, model="vgg16"),
        PassSpec(size=8, oversubscribed=True, segments=[SegmentSpec(model="vgg16")]),
    ]
    verdict = analysis_of(tmp_path, passes).verdict
    assert (verdict.model, verdict.np) == ("vgg16", 4)


@pytest.mark.heavy
def test_a_straggler_is_named_with_rank_phase_cost_and_fix(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, with_a_straggler()).verdict
    assert verdict.sentence.endswith(
        "torch np=1. Largest loss: straggler (rank 1, forward phase), 3.00 ms per step (23.1 %); "
        "fix: compare the work per sample of rank 1 with that of the others: lengths, shards."
    )
    assert verdict.biggest_loss == "straggler: rank 1, forward phase"
    assert verdict.biggest_loss_share == pytest.approx(3 / 13, rel=0.01)


@pytest.mark.heavy
def test_a_straggler_is_named_where_there_is_one_size_alone(tmp_path: Path) -> None:
    several = [one for one in with_a_straggler() if one.size > 1]
    verdict = analysis_of(tmp_path, several).verdict
    assert verdict.sentence.startswith("mnist on 2 ranks: ")
    assert " samples/s. Largest loss: straggler (rank 1, forward phase), 3.00" in verdict.sentence
    assert verdict.caveat.startswith("One number of ranks alone: no scaling to judge.")


@pytest.mark.heavy
def test_a_straggler_is_named_where_ranks_share_cores(tmp_path: Path) -> None:
    passes = with_a_straggler(4)
    for one in passes:
        one.oversubscribed = one.size > 1
    verdict = analysis_of(tmp_path, passes).verdict
    assert "Largest loss: straggler (rank 1, forward phase), 3.00" in verdict.sentence
    assert verdict.caveat.startswith("The ranks shared cores or GPUs (oversubscribed)")


@pytest.mark.heavy
def test_a_cause_that_costs_more_than_the_whole_loss_has_a_caveat(tmp_path: Path) -> None:
    passes = sweep({0: 10, 2: 10.6}, blocked_ms={2: 2.0})
    verdict = analysis_of(tmp_path, passes).verdict
    assert verdict.caveat == (
        "Gains, and losses that the baseline has too, offset 13.2 points of these 18.9 points."
    )


@pytest.mark.heavy
def test_toggles_are_not_the_headline(tmp_path: Path) -> None:
    fp16 = sweep({2: 40}, compression="fp16")
    verdict = analysis_of(tmp_path, [*sweep({0: 10, 2: 12.5}), *fp16]).verdict
    assert verdict.efficiency == pytest.approx(0.8, rel=1e-3)


@pytest.mark.heavy
def test_no_cause_where_nothing_may_be_lost(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, sweep({0: 10, 2: 10.1})).verdict
    assert verdict.sentence.endswith(" The 95 % CI includes 100 %: no certain loss.")
    assert verdict.biggest_loss == ""


@pytest.mark.heavy
def test_no_cause_is_named_without_a_dominant_part(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, sweep({0: 10, 2: 10.5})).verdict
    assert verdict.sentence.endswith("torch np=1. No single loss stands out.")
    assert verdict.biggest_loss == ""


@pytest.mark.heavy
def test_of_a_strategy_the_causes_are_said_to_be_unseen(tmp_path: Path) -> None:
    passes = sweep({1: 10, 2: 100})
    for one in passes:
        (segment,) = one.segments
        one.segments = [replace(segment, engine="tf-multiworker", seen_inside=False)]
    verdict = analysis_of(tmp_path, passes).verdict
    assert verdict.sentence.endswith(
        "Its causes are not seen: the strategy communicates within its compiled step."
    )
    assert verdict.biggest_loss == ""


@pytest.mark.heavy
def test_faster_than_the_baseline_is_legal(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, sweep({0: 10, 2: 9})).verdict
    assert verdict.efficiency == pytest.approx(10 / 9, rel=1e-3)
    assert verdict.sentence.endswith(" No loss: the whole 95 % CI is above 100 %.")


@pytest.mark.heavy
def test_one_number_of_ranks(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, sweep({0: 10, 1: 12.5})).verdict
    assert verdict.sentence == (
        "mnist on 1 rank: 2,560 ± 41 samples/s, 80.0 ± 1.8 % of torch np=1. Largest loss: compute "
        "slowdown, 2.25 ms per step (18.0 %)."
    )
    assert verdict.caveat == "One number of ranks alone: no scaling to judge."


def with_checkpoints(size: int, *, engine: str = "horovod", every: int = 15) -> list[PassSpec]:
    """Three launches of one number of ranks, which pause for 180 ms every so many steps of 80 ms.

    Nothing pauses with ``every`` of 0.
    """
    passes = []
    for repeat in (1, 2, 3):
        noise = np.random.default_rng(repeat).normal(0, 0.3, (size, 107))
        parts = {
            name: np.full((size, 107), part) for name, part in typical_parts(80.0, 2.0).items()
        }
        parts["forward"] += noise
        if every:
            parts["outside"][:, every - 1 :: every] += 180.0
        segment = SegmentSpec(engine=engine, parts_ms=parts, num_steps=105)
        passes.append(PassSpec(size=size, repeat=repeat, segments=[segment]))
    return passes


CHECKPOINTS = "evaluation, checkpoints, the end of a data shard."


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("size", "engine", "loss", "fix"),
    [
        (
            1,
            "horovod",
            "pauses every 15 steps, between steps",
            "look for what the loop does every 15 steps:",
        ),
        (
            2,
            "ddp",
            "all ranks pause every 15 steps, between steps",
            "look for what all ranks do every 15 steps:",
        ),
    ],
)
def test_pauses_of_one_number_of_ranks_are_its_largest_loss(
    tmp_path: Path, size: int, engine: str, loss: str, fix: str
) -> None:
    found = analysis_of(tmp_path, with_checkpoints(size, engine=engine))
    said = f"Largest loss: {loss}, 12.0 ms per step (13.1 %); fix: {fix} {CHECKPOINTS}"
    assert found.verdict.sentence.endswith(f" samples/s. {said}")
    assert found.verdict.headline.endswith(f"Largest loss: {loss}, 12.0 ms per step.")
    assert found.verdict.caveat == "One number of ranks alone: no scaling to judge."
    waterfall = found.table("waterfall")
    (row,) = waterfall[(waterfall["term"] == "pause").to_numpy()].to_dict("records")
    assert found.verdict.parts.cause_id == row["cause_id"]
    assert row["share"] == pytest.approx(12 / 92, rel=0.01)
    # Once: the rule on long steps does not name them again.
    assert list(found.findings["id"]).count("stalled-steps") == 1


@pytest.mark.heavy
def test_long_steps_of_plain_torch_are_its_largest_loss(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, with_checkpoints(1, engine="torch")).verdict
    assert verdict.sentence.endswith(
        " samples/s. Largest loss: stalled steps at a regular distance, 12.0 ms per step (13.0 %); "
        "fix: look for what happens at that distance: checkpoints, evaluation, logging, the end of "
        "a data shard."
    )
    assert verdict.parts.cause_id == ""


@pytest.mark.heavy
@pytest.mark.parametrize("size", [1, 2])
def test_one_number_of_ranks_that_loses_little_has_the_bound(tmp_path: Path, size: int) -> None:
    verdict = analysis_of(tmp_path, with_checkpoints(size, every=0)).verdict
    assert " samples/s. No large loss: the largest is " in verdict.sentence
    assert verdict.sentence.endswith(", 4.9 ± 0.0 % of the step.")
    assert verdict.headline.endswith(" samples/s. No large loss.")
    assert verdict.biggest_loss == ""
    assert verdict.caveat == "One number of ranks alone: no scaling to judge."


@pytest.mark.heavy
def test_only_plain_torch(tmp_path: Path) -> None:
    verdict = analysis_of(tmp_path, sweep({0: 10})).verdict
    assert verdict.sentence.startswith("mnist on 1 rank: 3,200 ± ")
    assert verdict.sentence.endswith("One number of ranks alone: no scaling to judge.")


@pytest.mark.heavy
def test_everything_oversubscribed_is_named_beside_the_number(tmp_path: Path) -> None:
    crowded = [
        PassSpec(
            size=4,
            repeat=repeat,
            oversubscribed=True,
            segments=[SegmentSpec(parts_ms=typical_parts(40))],
        )
        for repeat in (1, 2)
    ]
    verdict = analysis_of(tmp_path, [*sweep({0: 10}), *crowded]).verdict
    assert "25.0" in verdict.sentence
    assert "oversubscribed" in verdict.sentence
    assert "says nothing about scaling" in verdict.sentence
    assert verdict.biggest_loss == ""


@pytest.mark.heavy
def test_everything_failed(tmp_path: Path) -> None:
    failed = SegmentSpec(status="failed", failure=Failure(reason="Rank 1 was killed."))
    verdict = analysis_of(
        tmp_path, [PassSpec(size=2, segments=[failed], missing_ranks=[0, 1])], status="failed"
    ).verdict
    assert verdict.sentence == (
        "Nothing was measured: 1 of 1 planned measurements failed. First failure, mnist at np=2: "
        "Rank 1 was killed."
    )
    assert math.isnan(verdict.efficiency)


@pytest.mark.heavy
def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    planned = PassSpec(segments=[SegmentSpec(status="planned")], status="planned")
    verdict = analysis_of(tmp_path, [planned], status="running").verdict
    assert verdict.sentence == "Nothing is measured yet: the run is in progress."


@pytest.mark.heavy
def test_everything_skipped(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, [], skipped=[skipped("Adasum needs MPI.")])
    assert analysis.verdict.sentence == "Nothing was measured: every configuration was skipped."
    assert analysis.skipped[0].reason == "Adasum needs MPI."


@pytest.mark.heavy
def test_one_launch_names_a_loss_with_the_interval_of_that_launch(tmp_path: Path) -> None:
    passes = [
        PassSpec(size=1, segments=[SegmentSpec(engine="torch", parts_ms=typical_parts(10))]),
        PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(12.5, 2))]),
    ]
    analysis = analysis_of(tmp_path, passes)
    assert "2.00 ms per step (16.0 %)" in analysis.verdict.sentence
    assert analysis.verdict.caveat.startswith("One launch per cell")
    assert any("one launch per cell" in warning for warning in analysis.warnings)


@pytest.mark.heavy
def test_with_toggles_alone_the_reason_is_not_a_missing_size(tmp_path: Path) -> None:
    passes = [
        PassSpec(size=size, repeat=repeat, segments=[SegmentSpec(compression="fp16")])
        for size in (1, 2)
        for repeat in (1, 2)
    ]
    verdict = analysis_of(tmp_path, passes).verdict
    assert verdict.sentence.startswith("mnist on 2 ranks (fp16): 6,400 ± 0 samples/s. ")
    assert verdict.sentence.endswith("Cells with toggles alone: no scaling to judge.")


@pytest.mark.slow
def test_where_only_the_timeline_was_recorded_it_is_throughput_that_is_missing(
    tmp_path: Path,
) -> None:
    traced = PassSpec(size=2, mode="trace", segments=[SegmentSpec(timeline=True)])
    sentence = analysis_of(tmp_path / "traced", [traced]).verdict.sentence
    assert sentence.startswith("No throughput was measured: no measurement of it was finished")
    failed = SegmentSpec(status="failed", failure=Failure(reason="It hung."))
    both = analysis_of(tmp_path / "both", [PassSpec(size=2, segments=[failed]), traced])
    assert both.verdict.sentence.startswith("No throughput was measured: 1 of 2 planned")
