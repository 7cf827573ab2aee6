"""A GPU of AMD: what torch says of it, which asks AMD's library ``amdsmi``. Never run on one.

What limits its clock is asked of ``amdsmi`` itself, which knows it from MI300 on. Energy and errors
are not there.

Tested in ``tests/collect/devices/test_rocm_gpu.py`` with a stand-in for torch.
"""

import sys
from collections.abc import Callable

from hvdprof.collect.devices.source import Source, Values
from hvdprof.collect.devices.torch_device import TorchDevice
from hvdprof.rundir.recording import sample_format as names

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


def is_rocm() -> bool:
    """Whether the torch of this process computes on GPUs of AMD."""
    version = getattr(sys.modules.get("torch"), "version", None)
    return bool(getattr(version, "hip", None))


class RocmGpu(Source):
    """The GPU of this process, from when torch computes on it.

    Args:
        gpu: That GPU.
        report: Says once that a measure cannot be read.
    """

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
