import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


def passes(step_ms, *, size=2, repeats=3, spread=0.01, **toggle):
    specs = []
    for repeat in range(1, repeats + 1):
        drift = 1 + spread * (repeat - 2)
        specs.append(
            PassSpec(
                size=size,
                repeat=repeat,
                segments=[
                    SegmentSpec(parts_ms=typical_parts(10.0 * drift, 2.0)),
                    SegmentSpec(parts_ms=typical_parts(step_ms * drift, 2.0), **toggle),
                ],
            )
        )
    return specs


def toggle_row(tmp_path, specs):
    rows = analysis_of(tmp_path / "run", specs).table("toggles").to_dict("records")
    assert len(rows) == 1
    return rows[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step_ms", "verdict"), [(8.0, "pays"), (12.5, "costs"), (10.0, "no effect")]
)
def test_pairs_of_repeats_decide(tmp_path, step_ms, verdict):
    # Launches drift by 5 % from one repeat to the next, which falls on both of a pair.
    row = toggle_row(tmp_path, passes(step_ms, spread=0.05, compression="fp16"))

    assert row["verdict"] == verdict
    assert row["toggle"] == "fp16"
    assert row["num_pairs"] == 3
    assert row["speedup"] == pytest.approx(10.0 / step_ms, rel=0.01)


@pytest.mark.heavy
def test_one_repeat_is_not_comparable(tmp_path):
    row = toggle_row(tmp_path, passes(8.0, repeats=1, reduction="adasum"))

    assert (row["toggle"], row["verdict"]) == ("adasum", "not comparable")
    assert "fewer than two repeats" in row["reason"]


@pytest.mark.heavy
def test_on_one_rank_there_is_nothing_to_compare(tmp_path):
    row = toggle_row(tmp_path, passes(8.0, size=1, compression="fp16"))

    assert row["verdict"] == "not comparable"


@pytest.mark.slow
def test_repeats_that_differ_beyond_all_bounds_are_not_comparable(tmp_path):
    # Six comparisons share the level: with two repeats each the quantile is 76.
    plain = [SegmentSpec(model=f"m{number}", num_steps=1) for number in range(6)]
    specs = [
        PassSpec(
            size=2,
            repeat=repeat,
            segments=[
                *plain,
                *(
                    replace(one, compression="fp16", parts_ms=typical_parts(length_ms))
                    for one in plain
                ),
            ],
        )
        for repeat, length_ms in ((1, 0.001), (2, 1e6))
    ]
    rows = analysis_of(tmp_path / "run", specs).table("toggles")
    assert set(rows["verdict"]) == {"not comparable"}
    assert rows["speedup_high"].max() < float("inf")


def segment(num_steps: int, loss: object, **cell: object) -> SegmentSpec:
    return SegmentSpec(num_warmup_batches=0, num_steps=num_steps, batch_size=10, loss=loss, **cell)


@pytest.mark.heavy
def test_losses_are_compared_after_the_same_number_of_samples(tmp_path: Path) -> None:
    # The loss falls by 1 a step. One rank sees 1000 samples, two see 2000 in the same steps: what
    # counts is their loss after 1000 samples, that is over steps 45 to 49.
    falling = np.arange(100, 0, -1.0)
    passes = [
        PassSpec(size=1, segments=[segment(100, falling)]),
        PassSpec(size=2, segments=[segment(100, falling)]),
    ]
    scaling = analysis_of(tmp_path, passes).scaling
    assert scaling["final_loss"].tolist() == [falling[90:].mean(), falling[45:50].mean()]


@pytest.mark.heavy
def test_models_are_not_compared_with_each_other(tmp_path: Path) -> None:
    short = segment(20, np.arange(20.0), model="vgg16")
    long = segment(100, np.arange(100.0), model="mnist")
    scaling = analysis_of(tmp_path, [PassSpec(segments=[short, long])]).scaling
    assert scaling["final_loss"].tolist() == [18.5, 94.5]


@pytest.mark.heavy
def test_few_large_steps_still_have_a_last_one(tmp_path: Path) -> None:
    scaling = analysis_of(tmp_path, [PassSpec(segments=[segment(3, [3.0, 2.0, 1.0])])]).scaling
    assert scaling["final_loss"].tolist() == [1.0]


@pytest.mark.heavy
def test_steps_without_a_loss_are_passed_over(tmp_path: Path) -> None:
    loss = np.full(30, np.nan)
    loss[28] = 0.5
    scaling = analysis_of(tmp_path, [PassSpec(segments=[segment(30, loss)])]).scaling
    assert scaling["final_loss"].tolist() == [pytest.approx(0.5)]


@pytest.mark.heavy
def test_without_losses_there_is_none(tmp_path: Path) -> None:
    scaling = analysis_of(tmp_path, [PassSpec(segments=[segment(30, None)])]).scaling
    assert math.isnan(scaling["final_loss"].iloc[0])


@pytest.mark.heavy
@pytest.mark.parametrize(("speed", "ratio"), [(1.0, 1.0), (2.0, 0.5), (0.5, 2.0)])
def test_a_toggle_that_learns_faster_needs_fewer_samples(
    tmp_path: Path, speed: float, ratio: float
) -> None:
    steps = np.arange(200)
    base = segment(200, np.exp(-steps / 100))
    toggled = segment(200, np.exp(-steps * speed / 100), reduction="adasum")

    table = analysis_of(tmp_path, [PassSpec(size=2, segments=[base, toggled])]).table("toggles")

    assert table["samples_to_loss_ratio"].tolist() == [pytest.approx(ratio, rel=0.1)]


@pytest.mark.heavy
def test_losses_that_do_not_fall_give_no_ratio(tmp_path: Path) -> None:
    flat = np.full(100, 2.3)
    segments = [segment(100, flat), segment(100, flat, compression="fp16")]

    table = analysis_of(tmp_path, [PassSpec(size=2, segments=segments)]).table("toggles")

    assert math.isnan(table["samples_to_loss_ratio"].iloc[0])
