import numpy as np
import pytest

from hvdprof.analyze.predict.throughput_forecast import throughput_forecast
from hvdprof.ingest.load import read_scaling_text
from hvdprof.model.results.forecast import Limits, ThroughputForecast, limit_sentence

TUTORIAL = "1:872 8:6679 16:12828 32:23870"


def forecast_of(text: str, *sizes: int, target: float = 0.8) -> ThroughputForecast:
    table = read_scaling_text(text.splitlines(), name="table")
    return throughput_forecast(table.throughput, sizes, target=target)


def test_sizes_that_were_measured_later_lie_in_the_bands():
    """The full table continues with 47195 at 64 and 89783 at 128."""
    rows = forecast_of(TUTORIAL, 64, 128).rows

    assert rows["np"].tolist() == [64, 128]
    assert rows["extrapolation"].tolist() == [2.0, 4.0]
    truth = np.array([47_195, 89_783])
    assert (rows["samples_per_s_p5"] < truth).all()
    assert (rows["samples_per_s_p95"] > truth).all()
    assert rows["samples_per_s_p50"].to_numpy() == pytest.approx(truth, rel=0.04)
    efficiency = rows["samples_per_s_p50"] / rows["np"] / 872
    assert rows["efficiency_p50"].to_numpy() == pytest.approx(efficiency.to_numpy())


def test_a_verdict_names_the_band_the_limit_and_what_it_does_not_hold():
    (verdict,) = forecast_of(TUTORIAL, 64, 512).verdicts

    assert verdict.sentence.startswith("72 % (90 % band ")
    assert "scaling efficiency on 512 ranks. 80 % is reached up to " in verdict.sentence
    assert verdict.caveat.startswith("Extrapolated to 16 times the largest measured size")


def test_the_next_size_narrows_the_band_of_the_last():
    (following,) = forecast_of(TUTORIAL, 512).next_sizes

    assert 32 < following.np < 512
    assert following.target_np == 512
    assert following.band_after < 0.8 * following.band_before


def test_without_sizes_three_doublings_are_predicted():
    assert forecast_of("1:100 2:190 6:500").rows["np"].tolist() == [12, 24, 48]


def test_measured_sizes_are_not_predicted():
    found = forecast_of(TUTORIAL, 8, 32, 64)

    assert found.rows["np"].tolist() == [64]
    assert found.notes == ("np=8, 32 not predicted: np=32 is measured.",)


def test_series_are_predicted_apart_and_one_size_alone_is_named():
    text = "model,np,samples/s\na,1,100\na,2,190\nb,1,50\nb,2,80\nc,4,10\n"

    found = forecast_of(text, 4)

    assert found.rows["series"].tolist() == ["a", "b"]
    assert found.rows["efficiency_p50"].iloc[0] > found.rows["efficiency_p50"].iloc[1]
    assert found.notes == ("c: one number of ranks alone; a forecast requires two.",)
    assert [one.scenario for one in found.limits] == ["a", "b"]


def test_the_same_seed_gives_the_same_numbers():
    assert forecast_of(TUTORIAL, 64).rows.equals(forecast_of(TUTORIAL, 64).rows)


def test_speed_ups_have_no_rates():
    found = forecast_of(TUTORIAL, 64).without_rates()

    assert found.rows["samples_per_s_p50"].isna().all()
    assert found.rows["efficiency_p50"].notna().all()


def limits_to(largest: float, **changed: bool) -> Limits:
    given = {"is_beyond": False, "is_high_beyond": False, "is_low_open": False} | changed
    return Limits("", None, 0.0, largest, largest / 2, largest * 2, **given)


def test_a_limit_becomes_one_sentence():
    assert limit_sentence(limits_to(64.0), 0.8) == (
        "80 % is reached up to 64 ranks (90 % interval 32 to 128)."
    )
    assert limit_sentence(limits_to(64.0, is_beyond=True, is_high_beyond=True), 0.9) == (
        "90 % or more is likely up to 64 ranks and beyond (90 % interval 32 to more than 128)."
    )
    assert limit_sentence(limits_to(64.0, is_low_open=True), 0.8).endswith("unknown to 128).")
    assert limit_sentence(limits_to(0.0), 0.8) == "No predicted size reaches 80 %."
