import numpy as np
import pytest

from benchmarks import published_scaling
from benchmarks.published_scaling import (
    OTHERS,
    PUBLISHED,
    Prediction,
    agreeing,
    calibrated_table,
    prior_table,
)

pytestmark = pytest.mark.torch


def _prediction(*efficiencies):
    columns = np.array(efficiencies).T
    return Prediction(
        dict(zip(["inception_v3", "resnet101", "vgg16"], columns, strict=True)),
        np.full(len(efficiencies), 0.8),
        np.full(len(efficiencies), 15_000.0),
    )


def test_draws_agree_where_all_named_models_are_near_what_was_published():
    found = _prediction((0.90, 0.91, 0.60), (0.90, 0.80, 0.68), (0.89, 0.90, 0.69))
    assert agreeing(found, OTHERS).tolist() == [True, False, True]
    assert agreeing(found, ("vgg16",)).tolist() == [False, True, True]


def test_a_published_number_outside_of_the_band_is_called_missed():
    found = _prediction(*[(0.90, 0.70 + 0.001 * n, 0.68) for n in range(50)])
    lines = prior_table({"priors": found}).splitlines()
    assert lines[2].endswith("| 90 (90 to 90) |")
    assert "missed" in lines[3]
    text = calibrated_table(found)
    assert "50 draws agree with VGG-16 alone, 0 draws agree with the other two alone" in text
    assert "only 0 draws" in text


@pytest.mark.slow
def test_the_waiting_loop_covers_all_three_at_batch_64_and_not_vgg_at_32(monkeypatch):
    monkeypatch.setattr(published_scaling, "NUM_DRAWS", 600)
    whole = published_scaling.predict(waits=True).efficiency
    half = published_scaling.predict(waits=True, batch=32).efficiency
    for one in PUBLISHED:
        low, high = np.quantile(whole[one.model], [0.05, 0.95])
        assert low <= one.efficiency <= high
    assert np.quantile(half["vgg16"], 0.95) < 0.68
