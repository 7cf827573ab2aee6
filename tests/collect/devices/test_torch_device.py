"""The GPU that torch computes on, and torch's memory there."""

import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from hvdprof.collect.devices.torch_device import TorchDevice, TorchMemory


class FakeCuda:
    """torch.cuda of a process that sees two GPUs."""

    def __init__(self, reserved: list[int], *, runs: bool = True) -> None:
        self.reserved, self.runs = reserved, runs

    def is_initialized(self) -> bool:
        return self.runs

    def device_count(self) -> int:
        return len(self.reserved)

    def memory_reserved(self, number: int) -> int:
        return self.reserved[number]

    def get_device_properties(self, number: int) -> object:
        return types.SimpleNamespace(uuid=f"8a1f-{number}")

    def memory_stats_as_nested_dict(self, number: int) -> Mapping[str, Any]:
        if not self.reserved[number]:
            return {}
        return {
            "allocated_bytes": {"all": {"current": 5, "peak": 9}},
            "reserved_bytes": {"all": {"current": self.reserved[number], "peak": 99}},
            "num_alloc_retries": 3,
        }


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    found = FakeCuda([0, 0])
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=found))
    return found


def test_a_rank_computes_where_its_memory_is(cuda: FakeCuda) -> None:
    gpu = TorchDevice("cuda")
    before = gpu.number(), gpu.uuid(), TorchMemory(gpu).read()
    cuda.reserved[1] = 12

    assert before == (-1, "", {})
    assert (gpu.number(), gpu.uuid()) == (1, "GPU-8a1f-1")
    assert TorchMemory(gpu).read() == {
        "torch_allocated": 5,
        "torch_peak": 9,
        "torch_reserved": 12,
        "torch_retries": 3,
    }


def test_a_device_that_is_given_counts(cuda: FakeCuda) -> None:
    cuda.reserved[:] = [50, 12]

    assert TorchDevice("cuda:1").number() == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cuda_is_never_started_for_it(cuda: FakeCuda, device: str) -> None:
    cuda.runs = False
    cuda.reserved[:] = [50, 12]

    assert TorchDevice(device).number() == -1
    assert TorchMemory(TorchDevice(device)).read() == {}
