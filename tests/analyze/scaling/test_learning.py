import math
from pathlib import Path

import numpy as np
import pytest

from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec


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
