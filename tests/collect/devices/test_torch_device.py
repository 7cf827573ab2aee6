"""The GPU that torch computes on, and torch's memory there."""

import sys
import threading
import types
from collections.abc import Mapping
from typing import Any

import pytest

from hvdprof.collect.devices.torch_device import (
    RocmGpu,
    StepFlops,
    TorchDevice,
    TorchMemory,
    is_rocm,
)
from hvdprof.rundir.recording.sample_format import LIMITS, MEASURES

torch = pytest.importorskip("torch")
BATCH, WIDE, MIDDLE, OUT = 8, 16, 32, 4
BY_HAND = 2 * BATCH * (2 * (WIDE * MIDDLE + MIDDLE * OUT) + MIDDLE * OUT)
"""Forward, the gradients of both weights, and that of what lies between."""


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


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def counter(problems: list[str]) -> StepFlops:
    return StepFlops(TorchDevice("cpu"), problems.append)


def train(counter: StepFlops, warmup: tuple[bool, ...] = (True, True, False), **kind: Any) -> None:
    """Steps as a recorder sees them."""
    model = torch.nn.Sequential(torch.nn.Linear(WIDE, MIDDLE), torch.nn.Linear(MIDDLE, OUT))
    model.to(**kind)
    for step, is_warmup in enumerate(warmup):
        counter.begin(step, is_warmup=is_warmup)
        model(torch.ones(BATCH, WIDE, **kind)).sum().backward()
        counter.end()


def test_forward_and_backward_of_the_second_warm_up_step_are_counted(
    counter: StepFlops, problems: list[str]
) -> None:
    assert counter.read() == {}
    train(counter)
    assert counter.read() == {"flop_fp32": BY_HAND}
    assert counter.read().keys() <= MEASURES.keys()
    assert not problems


def test_the_precision_is_that_of_the_operations(counter: StepFlops) -> None:
    train(counter, dtype=torch.bfloat16)
    assert counter.read() == {"flop_bf16": BY_HAND}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        train(counter)
    assert counter.read() == {"flop_bf16": BY_HAND}


def test_no_measured_step_is_counted(
    counter: StepFlops, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_start", lambda: pytest.fail("it counts"))
    train(counter, (True, False, False))
    assert counter.read() == {}
    assert problems == ["no FLOPs are counted: the second step is no warm-up step"]


def test_each_segment_is_counted_anew(counter: StepFlops) -> None:
    train(counter)
    counter.begin(0, is_warmup=True)
    assert counter.read() == {}


def test_a_step_that_ends_without_its_end_is_closed_by_the_next(counter: StepFlops) -> None:
    counter.begin(0, is_warmup=True)
    counter.begin(1, is_warmup=True)
    torch.ones(2, 2) @ torch.ones(2, 2)
    counter.begin(2, is_warmup=True)
    counted = counter.read()
    torch.ones(2, 2) @ torch.ones(2, 2)
    assert counter.read() == counted == {"flop_fp32": 16}


def test_a_formula_that_fails_does_not_reach_the_training(
    counter: StepFlops, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> int:
        raise ValueError("a new form of mm")

    from torch.utils import flop_counter

    failing_all = dict.fromkeys(flop_counter.flop_registry, failing)
    monkeypatch.setattr(flop_counter, "flop_registry", failing_all)
    train(counter)
    assert counter.read() == {}
    assert problems == [
        "no FLOPs are counted: the step has no operation that the counter knows",
    ]


@pytest.mark.parametrize(
    ("module", "found", "message"),
    [
        ("torch", None, "TensorFlow has no counter that sees one step"),
        (
            "torch._dynamo.utils",
            types.SimpleNamespace(counters={"stats": {"unique_graphs": 1}}),
            "torch.compile hides operations from the counter",
        ),
    ],
)
def test_what_the_counter_does_not_see_has_no_number(
    counter: StepFlops,
    problems: list[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    found: object,
    message: str,
) -> None:
    if found is None:
        monkeypatch.delitem(sys.modules, module)
    else:
        monkeypatch.setitem(sys.modules, module, found)
    counter.begin(1, is_warmup=True)
    counter.end()
    assert counter.read() == {}
    assert problems == [f"no FLOPs are counted: {message}"]


def test_another_thread_may_read_meanwhile(counter: StepFlops) -> None:
    seen: list[object] = []
    counter.begin(1, is_warmup=True)
    thread = threading.Thread(target=lambda: seen.append(counter.read()))
    thread.start()
    thread.join()
    counter.end()
    assert seen == [{}]
