"""A GPU of AMD: what torch says of it, which asks AMD's library ``amdsmi``. Never run on one.

What limits its clock, its energy and its errors are not there: torch does not give them.

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
        return values
