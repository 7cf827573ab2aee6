"""The dense peaks of GPUs that MFU is held against, each with its source.

Numbers of data sheets with sparsity are halved. A name that is not here has no peak: a wrong one
would make a number that looks exact.

Tested in ``tests/analyze/ranks/test_flop_rates.py``.
"""

import re
from typing import NamedTuple

_FILES = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"
_V100 = (
    "https://images.nvidia.com/content/technologies/volta/pdf/"
    "volta-v100-datasheet-update-us-1165301-r5.pdf"
)
_T4 = f"{_FILES}/tesla-t4/t4-tensor-core-datasheet-951643.pdf"
_A10 = f"{_FILES}/a10/pdf/a10-datasheet.pdf"
_A100 = f"{_FILES}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_L4 = "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet"
_ADA = "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
_L40S = "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_NVL = "https://www.nvidia.com/en-us/data-center/h100/"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_B200 = "https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703"
_AMD = "https://www.amd.com/en/products/accelerators/instinct"


class DevicePeak(NamedTuple):
    """TFLOP/s, dense, of a device whose name, as torch has it, matches the pattern; 0 unknown."""

    title: str
    pattern: str
    fp32: float
    tf32: float
    fp16: float
    bf16: float
    fp8: float
    source: str


PEAKS = (
    DevicePeak("V100 SXM", r"V100-SXM", 15.7, 0, 125, 0, 0, _V100),
    DevicePeak("V100 PCIe", r"V100-PCIE", 14, 0, 112, 0, 0, _V100),
    DevicePeak("T4", r"(Tesla|NVIDIA) T4$", 8.1, 0, 65, 0, 0, _T4),
    DevicePeak("A10", r"NVIDIA A10$", 31.2, 0, 125, 125, 0, _A10),
    DevicePeak("A100", r"A100[- ]", 19.5, 156, 312, 312, 0, _A100),
    DevicePeak("L4", r"NVIDIA L4$", 30.3, 0, 121, 121, 0, _L4),
    DevicePeak("L40S", r"NVIDIA L40S$", 91.6, 183, 362.05, 362.05, 733, _L40S),
    DevicePeak("RTX 4090", r"NVIDIA GeForce RTX 4090$", 82.6, 82.6, 165.2, 165.2, 0, _ADA),
    DevicePeak("H100 PCIe", r"H100 PCIe", 51, 0, 756.5, 756.5, 0, _HOPPER),
    DevicePeak("H100 NVL", r"H100 NVL", 0, 0, 0, 835, 0, _NVL),
    DevicePeak("H100 SXM", r"H100 80GB HBM3$", 66.9, 494.7, 989.4, 989.4, 1978.9, _HOPPER),
    DevicePeak("H200", r"NVIDIA H200$", 0, 0, 989, 989, 0, _H200),
    DevicePeak("B200", r"NVIDIA B200$", 0, 0, 2250, 2250, 0, _B200),
    DevicePeak("MI250X, one GCD", r"MI250X$", 0, 0, 191.5, 191.5, 0, f"{_AMD}/mi200/mi250x.html"),
    DevicePeak(
        "MI300X", r"MI300X( OAM)?$", 163.4, 0, 1307.4, 1307.4, 0, f"{_AMD}/mi300/mi300x.html"
    ),
)


def peak_of(device: str, precision: str) -> float:
    """The dense peak of a device, FLOP/s; NaN of unknown ones, of parts, and in other precisions.

    Args:
        device: Its name as torch has it.
        precision: ``bf16``, ``tf32``, ...
    """
    known = (peak for peak in PEAKS if re.search(peak.pattern, device) and " MIG " not in device)
    found: float = getattr(next(known, None), precision, 0)
    return found * 1e12 or float("nan")
