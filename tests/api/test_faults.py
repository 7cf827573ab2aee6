import pytest

from hvdprof.api.faults import fault_environment
from hvdprof.collect.faults.fault_plan import parse_faults
from hvdprof.errors import UsageError


def test_the_variable_holds_the_faults() -> None:
    texts = ["sleep:phase=backward,rank=1,amount=20ms", "cpu:phase=data,rank=0,amount=5%"]
    ((name, value),) = fault_environment(texts).items()
    assert name == "HVDPROF_FAULTS"
    assert [fault.text for fault in parse_faults(value)] == texts


def test_a_fault_that_cannot_be_understood() -> None:
    with pytest.raises(UsageError, match="nap"):
        fault_environment(["nap:amount=20ms"])
