import pytest

from hvdprof import api
from hvdprof.api.prediction import predict_model
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.results.forecast import Question

pytestmark = pytest.mark.torch


def _asked(**values):
    fields = {"sizes": (8, 64), "model": "mnist", "links": ("25Gbit,15us",), "num_draws": 200}
    return Question(**(fields | values))


def test_a_model_of_many_bytes_scales_worse():
    small = predict_model(_asked(), 154).rows.set_index("np")
    large = predict_model(_asked(model="resnet18"), 2000).rows.set_index("np")
    assert list(small.index) == [8, 64]
    assert small.loc[64, "efficiency_p50"] > 0.9 > large.loc[64, "efficiency_p50"] + 0.1
    assert large.loc[64, "dominating"] == "exposed-transfer"


def test_settings_reach_the_prediction():
    plain = predict_model(_asked(model="resnet18"), 2000).rows.set_index("np")
    half = predict_model(_asked(model="resnet18", settings={"compression": "fp16"}), 2000)
    assert half.rows.set_index("np").loc[64, "efficiency_p50"] > plain.loc[64, "efficiency_p50"]
    uncached = predict_model(_asked(settings={"HOROVOD_CACHE_CAPACITY": "0"}), 154)
    assert "Horovod negotiates over MPI without its response cache." in uncached.assumptions


def test_without_a_link_stated_speeds_are_scenarios():
    assert len(predict_model(_asked(links=()), 154).scenarios) == 5


@pytest.mark.parametrize("text", ["115-162", (115.0, 162.0)])
def test_a_range_of_throughputs(text):
    assert predict_model(_asked(), text).assumptions[0].startswith("One rank reaches 115 to 162")


@pytest.mark.parametrize("rate", ["fast", 0, -1.0, "162-115", (1.0, float("inf")), "nan"])
def test_what_is_no_throughput_is_refused(rate):
    with pytest.raises(UsageError, match="is no throughput"):
        predict_model(_asked(), rate)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"algorithm": "star"}, "no algorithm 'star'"),
        ({"model": "alexnet"}, "no reference model"),
        ({"settings": {"colour": "red"}}, "No prediction for the setting"),
    ],
)
def test_what_cannot_be_predicted_is_refused(values, message):
    with pytest.raises(UsageError, match=message):
        predict_model(_asked(**values), 154)


def test_a_batch_has_a_sample():
    with pytest.raises(UsageError, match="below 1"):
        predict_model(_asked(), 154, batch_size=0)


def test_a_table_of_measured_sizes_alone_is_refused_with_larger_ones():
    with pytest.raises(
        UsageError, match="Nothing to predict at np=2, 4: np=4 is measured"
    ) as error:
        api.predict_throughput(["1:100 2:190 4:350"], "2,4")

    assert error.value.hint == "--np 8,16,32"


def test_one_size_alone_is_refused():
    with pytest.raises(UnreadableInputError, match="at least two rank counts"):
        api.predict_throughput(["np,samples/s", "2,10", "2,11"], 4)


def test_step_times_are_predicted_without_rates():
    found = api.predict_throughput(["np,step_time_ms", "1,100", "2,105", "4,112"], 8)

    assert found.rows["samples_per_s_p50"].isna().all()
    assert found.measured["samples_per_s"].isna().all()
    assert 0.7 < found.rows["efficiency_p50"].iloc[0] < 0.95
