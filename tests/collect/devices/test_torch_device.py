"""The GPU that torch computes on, and torch's memory there."""

import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from hvdprof.collect.devices.torch_device import RocmGpu, TorchDevice, TorchMemory, is_rocm
from hvdprof.rundir.recording.sample_format import LIMITS


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


def _torch(**functions: Any) -> types.SimpleNamespace:
    known = {
        "is_initialized": lambda: True,
        "get_device_name": lambda number: f"AMD Instinct MI300X, {number}",
        "clock_rate": lambda number: 2100,
        "power_draw": lambda number: 550,
        "temperature": lambda number: 61,
        "utilization": lambda number: 98,
        "device_memory_used": lambda number: 7 << 30,
        "_get_amdsmi_handler": lambda number: f"handle {number}",
    }
    version = types.SimpleNamespace(hip="6.4")
    return types.SimpleNamespace(cuda=types.SimpleNamespace(**known | functions), version=version)


def _amdsmi(asked: list[object], **status: object) -> types.SimpleNamespace:
    """AMD's library, which notes the handles that it is asked for."""
    known = {"acc_counter": 7, "active_hbm_thrm": "N/A", "active_vr_thrm": "N/A"}
    return types.SimpleNamespace(
        amdsmi_get_violation_status=lambda handle: asked.append(handle) or known | status
    )


def test_what_limits_the_clock_is_asked_of_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", _torch())
    asked: list[object] = []
    status = {"active_ppt_pwr": True, "active_socket_thrm": False, "active_prochot_thrm": "N/A"}
    monkeypatch.setitem(sys.modules, "amdsmi", _amdsmi(asked, **status))
    read = RocmGpu(TorchDevice("cuda:1"), pytest.fail).read()

    assert asked == ["handle 1"]
    limits = {name: value for name, value in read.items() if name.startswith("limited_")}
    assert limits == {"limited_power": 1.0, "limited_heat": 0.0}
    assert set(limits) <= set(LIMITS)


def test_values_have_the_units_of_the_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", _torch())
    monkeypatch.setitem(sys.modules, "amdsmi", _amdsmi([]))
    gpu = RocmGpu(TorchDevice("cuda:1"), pytest.fail)

    assert is_rocm()
    assert gpu.read() == {
        "sm_clock": 2.1e9,
        "power": 550.0,
        "temperature": 61.0,
        "utilisation": pytest.approx(0.98),
        "memory_used": float(7 << 30),
    }
    assert (gpu.scope, gpu.device) == ("device", "AMD Instinct MI300X, 1")


def test_what_cannot_be_read_is_said_once_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(number: int) -> int:
        raise ModuleNotFoundError("amdsmi does not seem to be installed")

    # torch gives 0 for a clock that amdsmi does not know, and amdsmi N/A for a temperature.
    torch = _torch(utilization=refused, clock_rate=lambda _: 0, temperature=lambda _: "N/A")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    said: list[str] = []
    gpu = RocmGpu(TorchDevice("cuda:0"), said.append)

    first, second = gpu.read(), gpu.read()
    assert first == second == {"power": 550.0, "memory_used": float(7 << 30)}
    assert said == [
        "utilisation of the GPU is not sampled: ModuleNotFoundError: amdsmi does not seem to be "
        "installed",
        "what limits the GPU's clock is not sampled: KeyError: 'amdsmi'",
    ]


def test_before_torch_computes_and_without_rocm_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", _torch(is_initialized=lambda: False))
    assert RocmGpu(TorchDevice("cuda:0"), pytest.fail).read() == {}
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(version=None))
    assert not is_rocm()
    monkeypatch.delitem(sys.modules, "torch")
    assert not is_rocm()
