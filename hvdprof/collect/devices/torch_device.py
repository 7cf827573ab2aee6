"""The GPU on which torch computes in this process, and its memory there.

Tested in ``tests/collect/devices/test_torch_device.py``.
"""

import sys
from collections.abc import Mapping

from hvdprof.collect.devices.source import Source, Values
from hvdprof.collect.steps.header import gpu_uuid
from hvdprof.rundir.recording import sample_format as names

Stats = Mapping[str, Mapping[str, Mapping[str, int]]]


class TorchDevice:
    """Finds the GPU of this process once torch computes on one.

    Args:
        device: As the recorder has it: ``cuda``, ``cuda:1``, ``cpu``.
    """

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
    """What torch's allocator holds on the GPU of this process.

    Args:
        device: That GPU.
    """

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
