"""FLOP/s of each rank and the share of the peak of its GPU (MFU), where FLOPs were counted.

A step in several precisions has a least time: the sum of its FLOPs in each, divided by the peak
there. MFU is that time divided by the mean step time of the job.

Numbers of data sheets with sparsity are halved. A name that is not here has no peak: a wrong one
would make a number that looks exact.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN, Mean
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.recording.sample_format import FLOP, FLOP_RATE, MFU

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


def whole_windows(samples: pd.DataFrame) -> pd.DataFrame:
    """DEVICE_SAMPLES without windows in which the FLOPs of a step changed with the model."""
    changed = samples["measure"].isin(FLOP.values()) & (samples["low"] != samples["high"])
    return samples[~changed.to_numpy(dtype=bool)]


def with_flop_rates(
    measured: pd.DataFrame, samples: pd.DataFrame, launches: pd.DataFrame
) -> pd.DataFrame:
    """RANK_MACHINE with rows of ``flop_rate`` and ``mfu``, whose ends are those of the step time.

    MFU is NaN where the peak of the device is not known in one of the precisions; on a CPU there is
    no such row.

    Args:
        measured: RANK_MACHINE.
        samples: DEVICE_SAMPLES, for the names of the devices.
        launches: LAUNCHES.
    """
    flops = measured[measured["measure"].isin(FLOP.values()).to_numpy(dtype=bool)]
    if flops.empty:
        return measured
    devices = {
        (str(pass_id), int(str(rank))): str(own["device"].iloc[-1])
        for (pass_id, rank), own in samples.groupby(["pass_id", "rank"], observed=True)
    }
    steps = {(str(row["pass_id"]), str(row["segment"])): row for row in launches.to_dict("records")}
    rows: list[dict[str, object]] = []
    for (pass_id, segment, rank), own in flops.groupby([*LAUNCH, "rank"], observed=True):
        launch = steps.get((str(pass_id), str(segment)))
        if launch is None:
            continue
        counted = dict(zip(own["measure"].astype(str), own["mean"], strict=True))
        step = Mean(
            launch["step_time_ns"], launch["step_time_error_ns"], launch["num_effective_steps"]
        ).interval()
        device = devices.get((str(pass_id), int(str(rank))), "")
        head = {"pass_id": pass_id, "segment": segment, "rank": rank}
        for measure, amount in _amounts(counted, device):
            ends = (amount / time * 1e9 for time in (step.value, step.high, step.low))
            values = dict(zip(("mean", "low", "high"), ends, strict=True))
            rows.append(_blank(own) | head | {"measure": measure} | values)
    known = (
        {str(name): value for name, value in row.items()} for row in measured.to_dict("records")
    )
    return RANK_MACHINE.frame([*known, *rows])


def _amounts(counted: dict[str, float], device: str) -> Iterator[tuple[str, float]]:
    """What is divided by the step time, in s: FLOPs for their rate, the least time for MFU."""
    yield FLOP_RATE, sum(counted.values())
    if device:
        known = [name for name, measure in FLOP.items() if measure in counted]
        yield MFU, sum(counted[FLOP[name]] / peak_of(device, name) for name in known)


def _blank(own: pd.DataFrame) -> dict[str, object]:
    """A row with the windows of the count, and without what is held against other ranks."""
    numbers: dict[str, object] = {
        column.name: NAN if column.dtype == "float64" else 0 for column in RANK_MACHINE.columns
    }
    return numbers | {"windows": int(own["windows"].iloc[0])}


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
