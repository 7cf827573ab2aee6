"""The dense peaks of GPUs that MFU is held against, each with its source.

Numbers of data sheets with sparsity are halved. A name that is not here has no peak: a wrong one
would make a number that looks exact.

Tested in ``tests/analyze/ranks/test_flop_rates.py``.
"""

import re
from dataclasses import dataclass

_NVIDIA = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """What one device of that name can do at most.

    Attributes:
        title: Its name in tables.
        pattern: What its name, as torch has it, matches.
        tflops: By precision, FLOPs per second / 1e12, dense.
        source: Where the numbers stand.
    """

    title: str
    pattern: str
    tflops: dict[str, float]
    source: str


def _half(fp32: float, half: float, **others: float) -> dict[str, float]:
    return {"fp32": fp32, "fp16": half, "bf16": half, **others}


PEAKS = (
    DevicePeak(
        "V100 SXM",
        r"V100-SXM",
        {"fp32": 15.7, "fp16": 125.0},
        "https://images.nvidia.com/content/technologies/volta/pdf/"
        "volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    DevicePeak(
        "V100 PCIe",
        r"V100-PCIE",
        {"fp32": 14.0, "fp16": 112.0},
        "https://images.nvidia.com/content/technologies/volta/pdf/"
        "volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    DevicePeak(
        "T4",
        r"(Tesla|NVIDIA) T4$",
        {"fp32": 8.1, "fp16": 65.0},
        f"{_NVIDIA}/tesla-t4/t4-tensor-core-datasheet-951643.pdf",
    ),
    DevicePeak(
        "A10",
        r"NVIDIA A10$",
        _half(31.2, 125.0),
        f"{_NVIDIA}/a10/pdf/a10-datasheet.pdf",
    ),
    DevicePeak(
        "A100",
        r"A100[- ]",
        _half(19.5, 312.0, tf32=156.0),
        f"{_NVIDIA}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    ),
    DevicePeak(
        "L4",
        r"NVIDIA L4$",
        _half(30.3, 121.0),
        "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet",
    ),
    DevicePeak(
        "L40S",
        r"NVIDIA L40S$",
        _half(91.6, 362.05, tf32=183.0, fp8=733.0),
        "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413",
    ),
    DevicePeak(
        "H100 PCIe",
        r"H100 PCIe",
        _half(51.0, 756.5),
        "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
    ),
    DevicePeak(
        "H100 NVL",
        r"H100 NVL",
        {"bf16": 835.0},
        "https://www.nvidia.com/en-us/data-center/h100/",
    ),
    DevicePeak(
        "H100 SXM",
        r"H100 80GB HBM3$",
        _half(66.9, 989.4, tf32=494.7, fp8=1978.9),
        "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
    ),
    DevicePeak(
        "H200",
        r"NVIDIA H200$",
        {"fp16": 989.0, "bf16": 989.0},
        "https://www.nvidia.com/en-us/data-center/h200/",
    ),
    DevicePeak(
        "B200",
        r"NVIDIA B200$",
        {"fp16": 2250.0, "bf16": 2250.0},
        "https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703",
    ),
    DevicePeak(
        "MI250X, one GCD",
        r"MI250X$",
        {"fp16": 191.5, "bf16": 191.5},
        "https://www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html",
    ),
    DevicePeak(
        "MI300X",
        r"MI300X( OAM)?$",
        {"fp32": 163.4, "fp16": 1307.4, "bf16": 1307.4},
        "https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html",
    ),
)
"""In the order in which they are tried."""


def peak_of(device: str) -> dict[str, float]:
    """By precision, the dense peak of a device, FLOP/s; empty of unknown devices, and of parts.

    Args:
        device: Its name as torch has it.
    """
    if " MIG " in device:
        return {}
    known = next((peak for peak in PEAKS if re.search(peak.pattern, device)), None)
    return {} if known is None else {name: value * 1e12 for name, value in known.tflops.items()}
