import pytest

from hvdprof.api.options import KNOWN_MODELS, fault_environment
from hvdprof.bench_models.registry import MODELS
from hvdprof.errors import UsageError
from hvdprof.rundir.recording.fault_plan import parse_faults


def test_the_variable_holds_the_faults() -> None:
    texts = ["sleep:phase=backward,rank=1,amount=20ms", "cpu:phase=data,rank=0,amount=5%"]
    ((name, value),) = fault_environment(texts).items()
    assert name == "HVDPROF_FAULTS"
    assert [fault.text for fault in parse_faults(value)] == texts


def test_a_fault_that_cannot_be_understood() -> None:
    with pytest.raises(UsageError, match="nap"):
        fault_environment(["nap:amount=20ms"])


def test_settings_know_every_reference_model() -> None:
    assert list(KNOWN_MODELS) == [model.name for model in MODELS]


def test_only_a_model_with_a_largest_image_has_a_fixed_size() -> None:
    assert [name for name, model in KNOWN_MODELS.items() if model.fixed_image_size] == ["mnist"]
    mnist = KNOWN_MODELS["mnist"]
    assert (mnist.default_image_size, mnist.min_image_size) == (28, 28)
    assert mnist.default_batch_size == 64
