import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.predict.forecast_score import (
    Measured,
    Predicted,
    conformal_factor,
    forecast_errors,
    forecast_scores,
    measured_of,
    past_errors,
)
from hvdprof.api import analyze_run, load_run
from hvdprof.model.results.forecast import Forecast, StoredForecast
from hvdprof.model.tables.forecast_tables import FORECAST_SCORES
from hvdprof.model.tables.scaling_tables import SCALING
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_forecast import finished_forecast
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


def predicted(*forecasts: Forecast) -> Predicted:
    stored = (StoredForecast(f"f{n}", "t", one) for n, one in enumerate(forecasts))
    return Predicted("runs/small", tuple(stored))


def measured(size: int, rate: float, num_hosts: int = 0, **changed: object) -> Measured:
    cell: dict[str, object] = {
        "model": "resnet50",
        "np": size,
        "engine": "horovod",
        "compression": "none",
        "reduction": "average",
        "batch_size": 32,
        "samples_per_s": rate,
    }
    return Measured(
        "runs/large",
        declared_rows(SCALING, cell | changed),
        {size: num_hosts or -(-size // 4)},
    )


def test_a_measured_size_is_held_against_its_band():
    """At np=8 the median is 680 samples/s, the 50 % band 646 to 714, the 90 % band 603 to 752."""
    inside = forecast_scores([predicted(finished_forecast())], [measured(8, 650.0)])
    beside = forecast_scores([predicted(finished_forecast())], [measured(8, 610.0)])
    outside = forecast_scores([predicted(finished_forecast())], [measured(8, 500.0)])

    assert inside[["in_50", "in_90"]].to_numpy().tolist() == [[True, True]]
    assert beside[["in_50", "in_90"]].to_numpy().tolist() == [[False, True]]
    assert outside[["in_50", "in_90"]].to_numpy().tolist() == [[False, False]]
    assert outside["log_error"].iloc[0] == pytest.approx(math.log(680 / 500))
    assert outside["extrapolation"].iloc[0] == 2.0
    assert outside["is_counted"].iloc[0]


@pytest.mark.parametrize(
    "run",
    [
        measured(8, 650.0, model="vgg16"),
        measured(8, 650.0, engine="ddp"),
        measured(8, 650.0, compression="fp16"),
        measured(8, 650.0, batch_size=64),
        measured(8, 650.0, oversubscribed=True),
        measured(8, 650.0, num_hosts=1),
        measured(4, 390.0),
    ],
    ids=["model", "engine", "compression", "batch", "oversubscribed", "hosts", "fitted size"],
)
def test_another_job_is_not_held_against_it(run: Measured) -> None:
    assert forecast_scores([predicted(finished_forecast(sizes=(4, 8)))], [run]).empty


@pytest.mark.parametrize(
    "assumed",
    [
        {"settings": {"batch": "32"}},
        {"algorithm": "parameter-server"},
        {"intra": "nvlink:300GB/s"},
        {"scaling": "strong"},
        {"keeps_stragglers": False},
    ],
    ids=lambda assumed: next(iter(assumed)),
)
def test_an_assumed_change_of_the_job_does_not_count(assumed: dict[str, object]) -> None:
    made = finished_forecast()
    changed = dataclasses.replace(made, question=dataclasses.replace(made.question, **assumed))

    scores = forecast_scores([predicted(changed)], [measured(8, 650.0)])

    assert scores["is_counted"].tolist() == [False]


def test_possible_networks_and_repetitions_do_not_count():
    several = finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05))

    scores = forecast_scores([predicted(several)], [measured(8, 650.0)])
    assert not scores["is_counted"].any()
    again = forecast_scores(
        [predicted(finished_forecast(), finished_forecast())], [measured(8, 650.0)]
    )
    assert again["is_counted"].tolist() == [True, False]


def test_a_band_without_a_lower_end_is_counted_apart():
    """Without an end below it holds every slow run, so it says less than a band with two ends."""
    opened = finished_forecast()
    opened.rows["samples_per_s_p5"] = math.nan
    closed = [predicted(finished_forecast())], [measured(8, 500.0)]
    open_ones = [predicted(opened)], [measured(8, 1.0), measured(8, 5000.0)]

    scores = pd.concat([forecast_scores(*closed), forecast_scores(*open_ones)])
    scores["is_counted"] = True
    row = forecast_errors(scores).iloc[0]

    assert scores["is_open"].tolist() == [False, True, True]
    assert (row["in_90"], row["num_open"], row["open_in_95"]) == (0.0, 2, 0.5)
    alone = forecast_errors(scores[scores["is_open"].to_numpy()]).iloc[0]
    assert math.isnan(alone["in_90"])
    assert math.isnan(forecast_errors(forecast_scores(*closed)).iloc[0]["open_in_95"])


def test_errors_are_grouped_by_extrapolation():
    runs = [measured(8, 680.0 / 1.03), measured(16, 1280.0 / 0.98), measured(64, 4480.0 / 1.2)]

    scores = forecast_scores([predicted(finished_forecast())], runs)
    errors = forecast_errors(scores).set_index("extrapolation")

    assert errors.index.tolist() == ["up to x2", "up to x4", "beyond x4"]
    assert errors["num_scores"].tolist() == [1, 1, 1]
    assert errors["bias"].to_numpy() == pytest.approx([0.03, -0.02, 0.2])
    assert errors["factor_90"].isna().all()
    assert past_errors(scores)[0] == (2.0, pytest.approx(math.log(1.03)))


def test_nine_errors_give_a_factor_for_90_percent():
    errors = np.linspace(-0.09, -0.01, 9)

    assert math.isnan(conformal_factor(errors[1:], 0.9))
    assert conformal_factor(errors, 0.9) == pytest.approx(math.exp(0.09))
    assert conformal_factor(errors, 0.5) == pytest.approx(math.exp(0.05))


def test_new_errors_lie_within_the_factor_as_often_as_it_says():
    rng = np.random.default_rng(5)
    hits = [
        abs(rng.standard_t(3)) <= math.log(conformal_factor(rng.standard_t(3, 9), 0.9))
        for _ in range(3_000)
    ]

    assert 0.88 <= np.mean(hits) <= 0.92


def test_no_scores_give_no_errors():
    assert forecast_errors(FORECAST_SCORES.empty()).empty
    assert past_errors(FORECAST_SCORES.empty()) == ()
    assert forecast_scores([], []).empty


@pytest.mark.heavy
def test_the_hosts_of_a_run_are_counted_by_size(tmp_path):
    passes = [PassSpec(size=n, segments=[SegmentSpec(parts_ms=typical_parts(10))]) for n in (1, 2)]

    found = measured_of(analyze_run(load_run(write_run(tmp_path / "run", passes))))

    assert found.run == "run"
    assert found.num_hosts == {1: 1, 2: 1}
    assert found.scaling["np"].tolist() == [1, 2]
