"""The GPU on which torch computes here: its memory, and the FLOPs of one warm-up step.

What limits the clock of a GPU of AMD is asked of ``amdsmi`` itself, which knows it from MI300 on.
Energy and errors are not there. Never run on such a GPU.

Tested in ``tests/collect/devices/test_torch_device.py`` with a stand-in for torch.
"""

import contextlib
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from hvdprof.collect.devices.sample_window import Source, Values
from hvdprof.collect.steps.header import gpu_uuid
from hvdprof.rundir.recording import sample_format as names
from hvdprof.rundir.recording.sample_format import DEVICE, FLOP, OTHER

Stats = Mapping[str, Mapping[str, Mapping[str, int]]]

_FUNCTIONS = (
    (names.SM_CLOCK, "clock_rate", 1e6),
    ("power", "power_draw", 1.0),
    ("temperature", "temperature", 1.0),
    (names.UTILISATION, "utilization", 0.01),
    ("memory_used", "device_memory_used", 1.0),
)
"""Measure, function of ``torch.cuda``, and its unit; under ROCm power is in W, not mW."""

_LIMITS = {
    "limited_power": ("active_ppt_pwr",),
    "limited_heat": ("active_socket_thrm", "active_vr_thrm", "active_hbm_thrm"),
    "limited_hw_heat": ("active_prochot_thrm",),
}
"""By measure the keys of ``amdsmi_get_violation_status`` that are true while that limits it."""

_UNKNOWN_IS_ZERO = (names.SM_CLOCK, "power")

COUNTED_STEP = 1
"""The first step makes what later ones find made."""


class TorchDevice:
    """Finds the GPU of this process (``cuda``, ``cuda:1``) once torch computes on one."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._number = -1

    def number(self) -> int:
        """Its number among those that this process sees; -1 where torch computes on none so far."""
        if self._number >= 0 or not self._device.startswith("cuda"):
            return self._number
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return -1
        given = self._device.removeprefix("cuda").removeprefix(":")
        if given.isdecimal():
            self._number = int(given)
        else:
            # The current device is one per thread: that of the training holds its tensors.
            held = [torch.cuda.memory_reserved(one) for one in range(torch.cuda.device_count())]
            if max(held, default=0) > 0:
                self._number = held.index(max(held))
        return self._number

    def uuid(self) -> str:
        """Its UUID as NVML has it; empty where that is not known."""
        number = self.number()
        uuid = gpu_uuid(number) if number >= 0 else ""
        return uuid if not uuid or uuid.startswith("GPU-") else f"GPU-{uuid}"


class TorchMemory(Source):
    """What torch's allocator holds on the GPU of this process."""

    scope = names.RANK

    def __init__(self, device: TorchDevice) -> None:
        self._gpu = device

    def read(self) -> Values:
        """The values now; none before torch has allocated."""
        number = self._gpu.number()
        if number < 0:
            return {}
        # Not the flat form: making it takes most of a millisecond.
        stats: Stats = sys.modules["torch"].cuda.memory_stats_as_nested_dict(number)
        if not stats:
            return {}
        allocated = stats["allocated_bytes"]["all"]
        retries: object = stats.get("num_alloc_retries", 0)
        return {
            names.TORCH_ALLOCATED: float(allocated["current"]),
            names.TORCH_PEAK: float(allocated["peak"]),
            names.TORCH_RESERVED: float(stats["reserved_bytes"]["all"]["current"]),
            names.TORCH_RETRIES: float(retries) if isinstance(retries, int) else 0.0,
        }


def is_rocm() -> bool:
    """Whether the torch of this process computes on GPUs of AMD."""
    version = getattr(sys.modules.get("torch"), "version", None)
    return bool(getattr(version, "hip", None))


class RocmGpu(Source):
    """The GPU of this process, from when torch computes on it."""

    scope = names.DEVICE

    def __init__(self, gpu: TorchDevice, report: Callable[[str], None]) -> None:
        self._gpu = gpu
        self._report = report
        self._functions = list(_FUNCTIONS)
        self._has_limits = True

    def read(self) -> Values:
        """The values now; what could not be read once is not asked for again."""
        number = self._gpu.number()
        if number < 0:
            return {}
        cuda = sys.modules["torch"].cuda
        self.device = self.device or str(cuda.get_device_name(number))
        values: Values = {}
        for one in list(self._functions):
            name, function, unit = one
            try:
                value = getattr(cuda, function)(number)
            except Exception as error:
                # amdsmi is not installed, or does not support it on this GPU.
                self._functions.remove(one)
                self._report(f"{name} of the GPU is not sampled: {type(error).__name__}: {error}")
                continue
            if isinstance(value, int | float) and (value or name not in _UNKNOWN_IS_ZERO):
                values[name] = value * unit
        return values | (self._limits(number) if self._has_limits else {})

    def _limits(self, number: int) -> Values:
        """By what its clock is limited now; what the GPU does not know says N/A."""
        try:
            # AMD's library numbers GPUs in its own way, which torch knows.
            handle = sys.modules["torch"].cuda._get_amdsmi_handler(number)
            status = sys.modules["amdsmi"].amdsmi_get_violation_status(handle)
        except Exception as error:
            self._has_limits = False
            self._report(
                f"what limits the GPU's clock is not sampled: {type(error).__name__}: {error}"
            )
            return {}
        known = {
            name: [status[key] for key in keys if status.get(key) in (False, True)]
            for name, keys in _LIMITS.items()
        }
        return {name: float(any(found)) for name, found in known.items() if found}


class StepFlops(Source):
    """Counts the FLOPs of the second step of each segment, where that is a warm-up step."""

    scope = DEVICE

    def __init__(self, gpu: TorchDevice, report: Callable[[str], None]) -> None:
        self._gpu, self._report = gpu, report
        self._values: Values = {}
        self._by_precision: Counter[str] = Counter()
        self._mode: AbstractContextManager[object] | None = None

    def begin(self, step: int, *, is_warmup: bool) -> None:
        """A step begins, in the thread that trains; raises nothing."""
        self.end()
        if step == 0:
            self._values = {}
        if step != COUNTED_STEP:
            return
        try:
            if not is_warmup:
                raise RuntimeError("the second step is no warm-up step")
            self._start()
        except Exception as error:
            self._give_up(f"{error}")

    def end(self) -> None:
        """The step ends, in the same thread; raises nothing."""
        if self._mode is None:
            return
        mode, self._mode = self._mode, None
        try:
            mode.__exit__(None, None, None)
            dynamo = sys.modules.get("torch._dynamo.utils")
            if dynamo is not None and dynamo.counters["stats"]:
                raise RuntimeError("torch.compile hides operations from the counter")
            if not self._by_precision:
                raise RuntimeError("the step has no operation that the counter knows")
            number = self._gpu.number()
            cuda = sys.modules["torch"].cuda
            self.device = str(cuda.get_device_name(number)) if number >= 0 else ""
            self._values = {FLOP[name]: float(n) for name, n in self._by_precision.items()}
        except Exception as error:
            self._give_up(f"{error}")

    def read(self) -> Values:
        """FLOPs per step by precision; none before they are counted."""
        return self._values

    def _start(self) -> None:
        if "torch" not in sys.modules:
            raise RuntimeError("TensorFlow has no counter that sees one step")
        counter = importlib.import_module("torch.utils.flop_counter")
        self._by_precision.clear()
        mapping = {
            operation: self._counted(str(operation), formula)
            for operation, formula in counter.flop_registry.items()
        }
        mode = counter.FlopCounterMode(display=False, custom_mapping=mapping)
        mode.__enter__()
        self._mode = mode

    def _counted(self, operation: str, formula: Callable[..., int]) -> Callable[..., int]:
        """The formula of an operation, which also adds its FLOPs to those of its precision."""

        def count(*tensors: object, **named: object) -> int:
            flops = 0
            # A failure here would be one of the training.
            with contextlib.suppress(Exception):
                flops = int(formula(*tensors, **named))
                self._by_precision[_precision(operation, tensors[0])] += flops
            return flops

        count._get_raw = True  # type: ignore[attr-defined]
        return count

    def _give_up(self, why: str) -> None:
        self._values = {}
        with contextlib.suppress(Exception):
            self._report(f"no FLOPs are counted: {why}")


def _precision(operation: str, tensor: object) -> str:
    """That in which an operation on a tensor computes."""
    name = str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    if name.startswith("float8"):
        return "fp8"
    short = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    precision = short.get(name, OTHER)
    if precision != "fp32" or not getattr(tensor, "is_cuda", False):
        return precision
    torch, device = sys.modules["torch"], getattr(tensor, "device", None)
    if torch.version.hip or torch.cuda.get_device_capability(device)[0] < 8:
        return precision
    is_convolution = "convolution" in operation or "conv2d" in operation
    allowed = (torch.backends.cudnn if is_convolution else torch.backends.cuda.matmul).allow_tf32
    return "tf32" if allowed else precision
