"""NVIDIA's management library, by its C interface: what a GPU does now.

The library comes with the driver; nothing is installed for it. What a GPU does not support is left
out. Numbers of functions' arguments and bits are those of ``nvml.h``.

Tested in ``tests/collect/devices/test_nvml.py`` with a library built there.
"""

import contextlib
import ctypes
import os
from pathlib import Path

from hvdprof.collect.devices.sample_window import Values
from hvdprof.collect.host_facts import listed_cores
from hvdprof.rundir.recording import sample_format as names

LIBRARY = "libnvidia-ml.so.1"

_SM, _MEMORY = 1, 2
_CORRECTED, _UNCORRECTED, _SINCE_BOOT = 0, 1, 0
_XID_EVENTS = 8
_NAME_BYTES = 96
_NUMBERS: dict[str, tuple[str, tuple[int, ...], float]] = {
    names.SM_CLOCK: ("ClockInfo", (_SM,), 1e6),
    "memory_clock": ("ClockInfo", (_MEMORY,), 1e6),
    "power": ("PowerUsage", (), 1e-3),
    names.ENERGY: ("TotalEnergyConsumption", (), 1e-3),
    "power_limit": ("EnforcedPowerLimit", (), 1e-3),
    "temperature": ("Temperature", (0,), 1.0),
    "pcie_generation": ("CurrPcieLinkGeneration", (), 1.0),
    "pcie_width": ("CurrPcieLinkWidth", (), 1.0),
    "ecc_corrected": ("TotalEccErrors", (_CORRECTED, _SINCE_BOOT), 1.0),
    "ecc_uncorrected": ("TotalEccErrors", (_UNCORRECTED, _SINCE_BOOT), 1.0),
}
"""By measure the function that gives a number, its arguments before that, and the unit."""
_PCI = Path("/sys/bus/pci/devices")


class NvmlError(Exception):
    """The library is not there, or refuses what nothing works without."""


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy_id", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "id", "subsystem")),
        ("bus_id", ctypes.c_char * 32),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlGpu:
    """One GPU.

    Args:
        uuid: Its UUID, ``GPU-...``.
        library: The file of the library, or its name.

    Attributes:
        name: The product, such as ``NVIDIA H200``.

    Raises:
        NvmlError: The library or the GPU is not there.
    """

    def __init__(self, uuid: str, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(str(error)) from error
        self._handle = ctypes.c_void_p()
        self._events = ctypes.c_void_p()
        self._xid = 0.0
        by_uuid = ("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._handle))
        if not self._succeeds("nvmlInit_v2") or not self._succeeds(*by_uuid):
            raise NvmlError(f"no GPU {uuid}")
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._succeeds("nvmlDeviceGetName", self._handle, name, ctypes.c_uint(_NAME_BYTES))
        self.name = name.value.decode("utf-8", "replace")
        self._near_cores = self._cores_of_node()
        listen = (self._handle, ctypes.c_ulonglong(_XID_EVENTS), self._events)
        self._hears_errors = self._succeeds(
            "nvmlEventSetCreate", ctypes.byref(self._events)
        ) and self._succeeds("nvmlDeviceRegisterEvents", *listen)

    def read(self) -> Values:
        """The values now."""
        values = self._whole_numbers()
        used, memory = _Utilisation(), _Memory()
        if self._get("UtilizationRates", used):
            values[names.UTILISATION] = used.gpu / 100
        if self._get("MemoryInfo", memory):
            values["memory_used"] = float(memory.used)
        reasons = ctypes.c_ulonglong()
        if self._get("CurrentClocksThrottleReasons", reasons):
            values |= {
                name: float(reasons.value >> bit & 1) for bit, name in enumerate(names.LIMITS)
            }
        if self._near_cores:
            own = os.sched_getaffinity(os.getpid())
            values[names.REMOTE] = float(not own & self._near_cores)
        if self._hears_errors:
            # The number of the last XID error; 0 without one. It waits for none.
            event = _Event()
            while self._succeeds(
                "nvmlEventSetWait_v2", self._events, ctypes.byref(event), ctypes.c_uint(0)
            ):
                self._xid = float(event.data)
            values[names.XID] = self._xid
        return values

    def close(self) -> None:
        """Give the library back."""
        if self._events:
            self._succeeds("nvmlEventSetFree", self._events)
        self._succeeds("nvmlShutdown")

    def _whole_numbers(self) -> Values:
        values: Values = {}
        for name, (function, arguments, scale) in _NUMBERS.items():
            # Room for both widths of its functions: bytes that a narrower one leaves are zero.
            number = ctypes.c_ulonglong()
            if self._get(function, number, *map(ctypes.c_uint, arguments)):
                values[name] = number.value * scale
        return values

    def _get(
        self, what: str, into: ctypes.Structure | ctypes.c_ulonglong, *arguments: object
    ) -> bool:
        return self._succeeds(f"nvmlDeviceGet{what}", self._handle, *arguments, ctypes.byref(into))

    def _succeeds(self, function: str, *arguments: object) -> bool:
        try:
            code: int = getattr(self._library, function)(*arguments)
        except AttributeError:
            # An older driver.
            return False
        return code == 0

    def _cores_of_node(self) -> frozenset[int]:
        """The cores of the NUMA node of the GPU; empty where the kernel does not say."""
        found = _PciInfo()
        if not self._get("PciInfo_v3", found):
            return frozenset()
        # NVML writes the domain with eight digits, the kernel with four.
        address = found.bus_id.decode("ascii", "replace").lower()[-len("0000:00:00.0") :]
        listed = ""
        with contextlib.suppress(OSError):
            listed = (_PCI / address / "local_cpulist").read_text(encoding="ascii")
        return frozenset(listed_cores(listed.strip()))
