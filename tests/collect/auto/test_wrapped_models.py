"""Which sharded module an optimizer trains; stand-ins in place of torch."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hvdprof.collect.auto.distributed_recording import fsdp_model_of
from tests.builders.fake_torch import FakeModel, FakeOptimizer, FakeParameter, FakeTime


class FSDPModule:
    """As torch names the class that ``fully_shard`` adds."""


class Sharded(FSDPModule):
    """A module of several parameters; ``fully_shard`` was called on it."""

    def __init__(self, **parameters: FakeParameter) -> None:
        self._parameters = parameters

    def named_parameters(self) -> Any:
        """Names and parameters."""
        return self._parameters.items()


@pytest.fixture
def parameters(monkeypatch) -> dict[str, FakeParameter]:
    name = "torch.distributed.fsdp._fully_shard"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    found: dict[str, Any] = {name: FakeParameter(10) for name in ("first", "second", "third")}
    for one in found.values():
        one.device_mesh = SimpleNamespace()
    return found


def optimizer_of(parameters: dict[str, FakeParameter]) -> Any:
    return FakeOptimizer(FakeModel(**parameters), FakeTime(0))


@pytest.mark.heavy
def test_the_outermost_module_is_found(parameters):
    inner = Sharded(first=parameters["first"])
    root = Sharded(**parameters)
    other = Sharded(second=parameters["second"])

    assert fsdp_model_of(optimizer_of(parameters)) is root
    del inner, other


@pytest.mark.heavy
def test_a_module_of_other_parameters_is_not(parameters):
    other = Sharded(strange=FakeParameter(3))
    unfinished = Sharded.__new__(Sharded)

    assert fsdp_model_of(optimizer_of(parameters)) is None
    del other, unfinished


def test_parameters_that_are_not_sharded_have_none(parameters, monkeypatch):
    root = Sharded(**parameters)
    monkeypatch.delitem(sys.modules, "torch.distributed.fsdp._fully_shard")

    assert fsdp_model_of(optimizer_of(parameters)) is None
    del root
