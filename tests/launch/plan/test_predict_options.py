import pytest

from hvdprof.analyze.predict.costs.collective_cost import Algorithm
from hvdprof.api.options import PredictOptions
from hvdprof.errors import UsageError
from hvdprof.launch.plan.predict_options import ALGORITHMS, STRONG, WEAK, parse_settings
from hvdprof.model.results import forecast


def test_names_and_defaults_are_those_of_the_forecast():
    options = PredictOptions()

    assert tuple(Algorithm) == ALGORITHMS
    assert (WEAK, STRONG) == (forecast.WEAK, forecast.STRONG)
    assert options.num_draws == forecast.DEFAULT_NUM_DRAWS
    assert options.seed == forecast.DEFAULT_SEED
    assert options.target == f"{forecast.DEFAULT_TARGET:.0%}"


def test_settings_are_joined_by_commas_or_given_several_times():
    assert parse_settings(["compression=fp16,batch=64", "HOROVOD_CYCLE_TIME = 2"]) == {
        "compression": "fp16",
        "batch": "64",
        "HOROVOD_CYCLE_TIME": "2",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"set": ("fp16",)}, "'fp16' is not NAME=VALUE"),
        ({"set": ("batch=",)}, "'batch=' is not NAME=VALUE"),
        ({"set": ("batch=1", "batch=2")}, "batch is given twice"),
        ({"algorithm": "star"}, "--algorithm star: not known"),
        ({"scaling": "medium"}, "--scaling medium: not known"),
        ({"engine": "mpi"}, "--engine mpi: not known"),
        ({"hosts_of": 0}, "--hosts-of 0"),
        ({"num_draws": 10}, "--draws 10"),
        ({"target": "120%"}, "--target 120%"),
    ],
)
def test_a_mistake_is_one_message(given, message):
    with pytest.raises(UsageError, match=message):
        PredictOptions(**given).check()


def test_a_list_becomes_a_tuple():
    assert PredictOptions(link=["25Gbit,15us"]).link == ("25Gbit,15us",)


@pytest.mark.parametrize("target", ["120%", "0", "nan", "high", 1.01])
def test_a_target_is_an_efficiency(target):
    with pytest.raises(UsageError, match="must be an efficiency above 0 and at most 100 %") as one:
        PredictOptions(target=target).check()
    assert one.value.hint == "--target 80% or 0.8"
    PredictOptions(target="100%").check()
